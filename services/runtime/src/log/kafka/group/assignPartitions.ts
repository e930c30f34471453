/** Decides which member of a group gets which partitions: pure, so that every leader would decide the same. */

export interface AssignedMember {
  readonly id: string;
  /** Its partitions now; it keeps as many of them as its share allows. */
  readonly owned: readonly number[];
}

/**
 * Every partition goes to one member, and no member has two more than another. Neighbours go to different members where
 * that moves nothing: the lanes of a tenant are neighbours, and spread over consumers only then.
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
    // The member with the most room left is next.
    const [next] = assignments.toSorted((a, b) => freeSlots(b) - freeSlots(a));
    next?.own.push(partition);
  }
  return new Map(assignments.map(({ id, own }) => [id, own.sort((a, b) => a - b)]));
}

/** Picks so many of them, as far from one another as they come. */
function pickSpread(claimed: readonly number[], count: number): number[] {
  if (claimed.length <= count) return [...claimed];
  const sorted = claimed.toSorted((a, b) => a - b);
  return numbers(count).map((index) => sorted[Math.floor((index * sorted.length) / count)] ?? 0);
}

interface Claim {
  readonly id: string;
  readonly claimed: readonly number[];
}

/** Sorts the members by id. If two claim a partition, as after a lost session, the first has it. */
function claimsOf(members: readonly AssignedMember[], partitions: readonly number[]): Claim[] {
  const left = new Set(partitions);
  return members
    .toSorted((a, b) => (a.id < b.id ? -1 : 1))
    .map(({ id, owned }) => ({ id, claimed: owned.filter((partition) => left.delete(partition)) }));
}

/** Each member's number of partitions. If they do not divide evenly, those who have the most get one more. */
function targetCountsOf(claims: readonly Claim[], partitions: number): Map<string, number> {
  const minimum = Math.floor(partitions / claims.length);
  const withOneMore = partitions % claims.length;
  const byClaim = claims.toSorted((a, b) => b.claimed.length - a.claimed.length);
  return new Map(byClaim.map(({ id }, rank) => [id, minimum + (rank < withOneMore ? 1 : 0)]));
}

function numbers(count: number): number[] {
  return Array.from({ length: count }, (_, index) => index);
}
