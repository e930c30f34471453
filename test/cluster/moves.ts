/** Partitions that move between consumers: which ones, and how long nobody worked on them. */
import type { GroupMembers, GroupView } from '@questlog/runtime/log/kafka/testing/groupMembers';
import { eventually } from '../e2e/builders.ts';
import type { GroupWatch } from './groupWatch.ts';

export interface WatchedMoves {
  readonly view: GroupView;
  readonly watch: GroupWatch;
  /** The group with the deployment's prefix. */
  readonly group: string;
}

export interface Move {
  readonly partitions: readonly number[];
  /** From the start of the measurement until the new owner had worked on one of them; on each of them. */
  readonly firstMs: number;
  readonly allMs: number;
}

const MOVED_WITHIN_MS = 90_000;

/** Resolves once the group is stable and this many members have a partition. */
export async function settledMembers(
  { view, group }: Pick<WatchedMoves, 'view' | 'group'>,
  count: number,
): Promise<ReadonlyMap<string, readonly number[]>> {
  const look = () => view.members(group);
  const isSettled = (members: GroupMembers): boolean =>
    members?.size === count && [...members.values()].every(({ length }) => length > 0);
  return (await eventually(look, isSettled, MOVED_WITHIN_MS)) ?? new Map();
}

/**
 * Waits until the partitions of a lost member, or those of a new one, are worked on again.
 * @param before the earlier members; one of them has just died, or a new one has just started.
 */
export async function moved(
  moves: WatchedMoves,
  before: ReadonlyMap<string, readonly number[]>,
  sinceMs: number,
): Promise<Move> {
  const { watch } = moves;
  const look = () => moves.view.members(moves.group);
  const isOther = (members: GroupMembers): boolean =>
    members !== undefined && movedIn(before, members).length > 0;
  const after = (await eventually(look, isOther, MOVED_WITHIN_MS)) ?? new Map();
  const partitions = movedIn(before, after);
  // The previous owner can commit no more.
  const base = watch.committed;
  const isMoving = (partition: number): boolean => (watch.committed[partition] ?? 0) > (base[partition] ?? 0);
  await eventually(async () => partitions.some(isMoving), Boolean, MOVED_WITHIN_MS);
  const firstMs = performance.now() - sinceMs;
  await eventually(async () => partitions.every(isMoving), Boolean, MOVED_WITHIN_MS);
  return { partitions, firstMs, allMs: performance.now() - sinceMs };
}

/** Partitions with another owner than before. */
function movedIn(
  before: ReadonlyMap<string, readonly number[]>,
  after: ReadonlyMap<string, readonly number[]>,
): number[] {
  return [...after].flatMap(([member, partitions]) =>
    partitions.filter((partition) => before.get(member)?.includes(partition) !== true),
  );
}
