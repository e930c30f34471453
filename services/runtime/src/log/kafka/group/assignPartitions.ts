/** Assigns the partitions of a consumer group to its members. Every member computes the same assignment. */

export interface AssignedMember {
  readonly id: string;
  /** Partitions that the member currently owns. The member keeps as many of them as its new partition count allows. */
  readonly owned: readonly number[];
}

/**
 * Assigns every partition to one member. The partition counts of two members differ by at most 1. A tenant uses consecutive
 * partitions. To distribute the load of a tenant, consecutive partitions go to different members if this causes no additional
 * moves.
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
 * Returns the partitions that each member owned before the rebalance. If several members report the same partition, it belongs
 * to the member with the lowest id.
 */
function claimsOf(members: readonly AssignedMember[], partitions: readonly number[]): Claim[] {
  const left = new Set(partitions);
  return members
    .toSorted((a, b) => (a.id < b.id ? -1 : 1))
    .map(({ id, owned }) => ({ id, claimed: owned.filter((partition) => left.delete(partition)) }));
}

function targetCountsOf(claims: readonly Claim[], partitions: number): Map<string, number> {
  const minimum = Math.floor(partitions / claims.length);
  const withOneMore = partitions % claims.length;
  const byClaim = claims.toSorted((a, b) => b.claimed.length - a.claimed.length);
  return new Map(byClaim.map(({ id }, rank) => [id, minimum + (rank < withOneMore ? 1 : 0)]));
}

function numbers(count: number): number[] {
  return Array.from({ length: count }, (_, index) => index);
}
