/** The group's way to share partitions: partition p of all topics goes to one member, and stays there where it can. */
import kafkajs, { type PartitionAssigner } from 'kafkajs';
import { assignPartitions } from './assignPartitions.ts';

/** Part of the group's protocol: members that know different names of it cannot be in one group. */
const NAME = 'questlog-co-partitions';
const VERSION = 1;

/**
 * @param owned the partitions that this member has at the moment; asked whenever it joins.
 * @param partitions of each topic. Others that the topics may have are nobody's.
 */
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
        // A topic is named even without a partition: kafkajs forgets the others, for all members in the process.
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

/** Anything that another version of the code has written there claims nothing. */
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
