/** The owners of a group's partitions, by the brokers, and what an operator does to groups and topics: for tests that break them. */
import kafkajs from 'kafkajs';
import { silentLogger } from '../../../process/logger.ts';
import { kafkaClient } from '../client/kafkaClient.ts';

/** The partitions of each member, by its id; undefined while the group is not settled. */
export type GroupMembers = ReadonlyMap<string, readonly number[]> | undefined;

export interface GroupView {
  /** @param group with its prefix. */
  members(group: string): Promise<GroupMembers>;
  /** Deletes groups with all that they have committed. @throws as long as one has members. */
  deleteGroups(groups: readonly string[]): Promise<void>;
  /** As an operator may do by hand. @param topics with their prefix. */
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
          // All topics of a group are shared alike.
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
