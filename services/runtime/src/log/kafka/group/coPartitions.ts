/**
 * Partition assigner for kafkajs. Assigns partition p of every topic to the same member, and moves as few partitions as
 * possible.
 */
import kafkajs, { type PartitionAssigner } from 'kafkajs';
import { assignPartitions } from './assignPartitions.ts';

/** Name of the assigner in the group protocol. All members of a group must use the same name. */
const NAME = 'questlog-co-partitions';
const VERSION = 1;

/**
 * @param owned a function that returns the partitions that this member owns.
 * @param partitions the partitions to assign, for each topic. Other partitions stay unassigned.
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
        // The assignment includes topics without a partition. Without this entry, kafkajs would drop the topic's metadata for
        // all members in the process.
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

/** Returns the partitions in a member's user data. Returns no partitions if the data has another version. */
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
