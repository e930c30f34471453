/** Group members that the brokers report, and actions of operators on groups and topics. */
import kafkajs from 'kafkajs';
import { silentLogger } from '../../../process/logger.ts';
import { kafkaClient } from '../client/kafkaClient.ts';

/** Partitions by member id. Undefined while the group is rebalancing. */
export type GroupMembers = ReadonlyMap<string, readonly number[]> | undefined;

export interface GroupView {
  /** Returns the members of a group. @param group the group name with the prefix. */
  members(group: string): Promise<GroupMembers>;
  /** Deletes groups and their commits. @throws Error if a group has members. */
  deleteGroups(groups: readonly string[]): Promise<void>;
  /** Adds partitions to topics, as an operator would do. @param topics the topic names with the prefix. */
  addPartitions(topics: readonly string[], count: number): Promise<void>;
  close(): Promise<void>;
}

export async function openGroupView(brokers: string): Promise<GroupView> {
  const client = kafkaClient({ brokers: brokers.split(','), clientId: 'questlog-tests' }, silentLogger);
  const admin = client.admin();
  await admin.connect();
  return {
    members: async (group) => {
      const [description] = (await admin.describeGroups([group])).groups;
      if (description?.state !== 'Stable') return undefined;
      return new Map(
        description.members.map(({ memberId, memberAssignment }) => {
          const decoded = kafkajs.AssignerProtocol.MemberAssignment.decode(memberAssignment);
          // A member has the same partitions of every topic, so the first topic is enough.
          const [partitions = []] = Object.values(decoded?.assignment ?? {});
          return [memberId, partitions];
        }),
      );
    },
    deleteGroups: async (groups) => void (await admin.deleteGroups([...groups])),
    addPartitions: async (topics, count) => {
      const topicPartitions = topics.map((topic) => ({ topic, count }));
      await admin.createPartitions({ topicPartitions });
    },
    close: () => admin.disconnect(),
  };
}
