/** Partition assigner for kafkajs. A member owns the same partition numbers in every topic of its group. */
import { RECORDS_VERSION } from '@questlog/schemas/topics/topics';
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
        userData: Buffer.from(JSON.stringify({ owned: owned(), recordsVersion: RECORDS_VERSION })),
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
  const owned = fieldOf(userData, 'owned');
  return Array.isArray(owned) ? owned.filter((one) => Number.isInteger(one)) : [];
}

/** Returns the highest record version that a member can read. Returns 0 if the member's metadata contains no version. */
export function recordsVersionOf(memberMetadata: Buffer): number {
  const decoded = kafkajs.AssignerProtocol.MemberMetadata.decode(memberMetadata);
  const version = fieldOf(decoded?.userData, 'recordsVersion');
  return typeof version === 'number' ? version : 0;
}

function fieldOf(userData: Buffer | undefined, name: string): unknown {
  if (userData === undefined || userData.length === 0) return undefined;
  try {
    const parsed: unknown = JSON.parse(userData.toString());
    return typeof parsed === 'object' && parsed !== null ? Reflect.get(parsed, name) : undefined;
  } catch {
    return undefined;
  }
}
