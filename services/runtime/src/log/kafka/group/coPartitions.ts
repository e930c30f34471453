/** Partition assigner for kafkajs. A member owns the same partition numbers in every topic of its group. */
import kafkajs, { type PartitionAssigner } from 'kafkajs';
import { assignPartitions } from './assignPartitions.ts';

/** Name of the assigner in the group protocol. The name must be the same in all members of a group. */
const NAME = 'questlog-co-partitions';
const VERSION = 1;

export function coPartitions(
  owned: () => readonly number[],
  partitions: readonly number[],
): PartitionAssigner {
  return () => ({
    name: NAME,
    version: VERSION,
    protocol: ({ topics }) => ({
      name: NAME,
      metadata: kafkajs.AssignerProtocol.MemberMetadata.encode({
        version: VERSION,
        topics,
        userData: Buffer.from(JSON.stringify({ owned: owned() })),
      }),
    }),
    assign: async ({ members, topics }) => {
      const subscribers = members.map(({ memberId, memberMetadata }) => {
        const metadata = kafkajs.AssignerProtocol.MemberMetadata.decode(memberMetadata);
        return { id: memberId, topics: metadata?.topics ?? topics, owned: ownedOf(metadata?.userData) };
      });
      const assigned = assignPartitions(subscribers, partitions);
      return subscribers.map(({ id, topics: subscribed }) => {
        const memberPartitions = [...(assigned.get(id) ?? [])];
        // The assignment contains every topic, because kafkajs drops the metadata of topics that are missing in the assignment.
        const assignment = Object.fromEntries(subscribed.map((topic) => [topic, memberPartitions]));
        return {
          memberId: id,
          memberAssignment: kafkajs.AssignerProtocol.MemberAssignment.encode({
            version: VERSION,
            assignment,
            userData: Buffer.alloc(0),
          }),
        };
      });
    },
  });
}

function ownedOf(userData: Buffer | undefined): number[] {
  if (userData === undefined || userData.length === 0) return [];
  try {
    const parsed: unknown = JSON.parse(userData.toString());
    const owned: unknown = typeof parsed === 'object' && parsed !== null ? Reflect.get(parsed, 'owned') : [];
    return Array.isArray(owned) ? owned.filter((one) => Number.isInteger(one)) : [];
  } catch {
    return [];
  }
}
