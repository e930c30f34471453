/** Assigns a group's partitions to its members. Pure, so that every group leader computes the same assignment. */

export interface AssignedMember {
  readonly id: string;
  /** Current partitions. The member keeps as many of them as its target count allows. */
  readonly owned: readonly number[];
}

/**
 * Assigns every partition to one member, with counts that differ by at most 1. Neighboring partitions go to different
 * members unless that moves partitions, because the lanes of one tenant are neighbors.
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

/** Returns `count` of the partitions, spread as far apart as possible. */
function pickSpread(claimed: readonly number[], count: number): number[] {
  if (claimed.length <= count) return [...claimed];
  const sorted = claimed.toSorted((a, b) => a - b);
  return numbers(count).map((index) => sorted[Math.floor((index * sorted.length) / count)] ?? 0);
}

interface Claim {
  readonly id: string;
  readonly claimed: readonly number[];
}

/** Sorts the members by id. If two members claim a partition, for example after a lost session, the first one gets it. */
function claimsOf(members: readonly AssignedMember[], partitions: readonly number[]): Claim[] {
  const left = new Set(partitions);
  return members
    .toSorted((a, b) => (a.id < b.id ? -1 : 1))
    .map(({ id, owned }) => ({ id, claimed: owned.filter((partition) => left.delete(partition)) }));
}

/** Returns each member's number of partitions. Members with the most claims get the remainder. */
function targetCountsOf(claims: readonly Claim[], partitions: number): Map<string, number> {
  const minimum = Math.floor(partitions / claims.length);
  const withOneMore = partitions % claims.length;
  const byClaim = claims.toSorted((a, b) => b.claimed.length - a.claimed.length);
  return new Map(byClaim.map(({ id }, rank) => [id, minimum + (rank < withOneMore ? 1 : 0)]));
}

function numbers(count: number): number[] {
  return Array.from({ length: count }, (_, index) => index);
}
