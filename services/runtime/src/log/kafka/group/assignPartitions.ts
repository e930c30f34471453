/** Assigns a group's partitions to the members of the group. Every group leader computes the same assignment. Pure. */

export interface AssignedMember {
  readonly id: string;
  /** Partitions that the member currently owns. The member keeps as many of these partitions as its target count allows. */
  readonly owned: readonly number[];
}

/**
 * Assigns every partition to one member. The partition counts of the members differ by at most 1. Neighboring partitions go to
 * different members unless that would move partitions. The reason is that the lanes of one tenant are neighboring partitions.
 */
export function assignPartitions(
  members: readonly AssignedMember[],
  partitions: readonly number[],
): Map<string, readonly number[]> {
  const claims = claimsOf(members, partitions);
  const targetCounts = targetCountsOf(claims, partitions.length);
  const assignments = claims.map(({ id, claimed }) => ({
    id,
    own: pickSpread(claimed, targetCounts.get(id) ?? 0),
  }));
  const assigned = new Set(assignments.flatMap(({ own }) => own));
  const freeSlots = ({ id, own }: { id: string; own: readonly number[] }): number =>
    (targetCounts.get(id) ?? 0) - own.length;
  for (const partition of partitions.filter((one) => !assigned.has(one))) {
    const [next] = assignments.toSorted((a, b) => freeSlots(b) - freeSlots(a));
    next?.own.push(partition);
  }
  return new Map(assignments.map(({ id, own }) => [id, own.sort((a, b) => a - b)]));
}

/** Returns `count` of the partitions. The partitions are as far apart as possible. */
function pickSpread(claimed: readonly number[], count: number): number[] {
  if (claimed.length <= count) return [...claimed];
  const sorted = claimed.toSorted((a, b) => a - b);
  return numbers(count).map((index) => sorted[Math.floor((index * sorted.length) / count)] ?? 0);
}

interface Claim {
  readonly id: string;
  readonly claimed: readonly number[];
}

/**
 * Returns the claims in the order of the member ids. If two members claim a partition, for example after a lost session, the
 * member with the lower id gets the partition.
 */
function claimsOf(members: readonly AssignedMember[], partitions: readonly number[]): Claim[] {
  const left = new Set(partitions);
  return members
    .toSorted((a, b) => (a.id < b.id ? -1 : 1))
    .map(({ id, owned }) => ({ id, claimed: owned.filter((partition) => left.delete(partition)) }));
}

/** Returns the number of partitions of each member. The members with the most claims get the remaining partitions. */
function targetCountsOf(claims: readonly Claim[], partitions: number): Map<string, number> {
  const minimum = Math.floor(partitions / claims.length);
  const withOneMore = partitions % claims.length;
  const byClaim = claims.toSorted((a, b) => b.claimed.length - a.claimed.length);
  return new Map(byClaim.map(({ id }, rank) => [id, minimum + (rank < withOneMore ? 1 : 0)]));
}

function numbers(count: number): number[] {
  return Array.from({ length: count }, (_, index) => index);
}
