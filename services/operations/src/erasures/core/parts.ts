/** Splits an erasure request into several records of the log if its ids do not fit into one record. */
import type { Erasure, ErasureState, IdsOfProject } from '@questlog/schemas/topics/directoryEntry';
import { mergeAbandonedExports, mergeErasedExports } from '../../exports/erasedExports.ts';
import { sumCounts } from './scope.ts';

export function splitIntoParts(all: readonly IdsOfProject[], maxIds: number): IdsOfProject[][] {
  const parts: IdsOfProject[][] = [];
  let remaining = 0;
  for (const { projectId, ids } of all) {
    for (let from = 0; from < ids.length; ) {
      if (remaining === 0) {
        parts.push([]);
        remaining = maxIds;
      }
      const some = ids.slice(from, from + remaining);
      parts.at(-1)?.push({ projectId, ids: some });
      from += some.length;
      remaining -= some.length;
    }
  }
  return parts;
}

export function countOf(ids: readonly IdsOfProject[]): number {
  return ids.reduce((sum, of) => sum + of.ids.length, 0);
}

export function requestIdOf({ id, partOf }: Pick<Erasure, 'id' | 'partOf'>): string {
  return partOf ?? id;
}

/** Merges the parts of an erasure request. The merged erasure has the state of the slowest part. */
export function mergeParts(first: Erasure, others: readonly Erasure[]): Erasure {
  const parts = [first, ...others];
  const id = requestIdOf(first);
  // Each part of an erasure request is a record. The last record has the id of the request, and completes the request.
  const isComplete = parts.some((one) => one.id === id);
  const problems = new Set(parts.flatMap(({ problem }) => problem ?? []));
  if (!isComplete) problems.add('the request ended before all parts were written: request the erasure again');
  return {
    ...first,
    id,
    state: isComplete ? stateOf(new Set(parts.map(({ state }) => state))) : 'failed',
    problem: problems.size === 0 ? null : [...problems].join('; '),
    found: others.reduce((sum, { found }) => sumCounts(sum, found), first.found),
    hiddenAt: isComplete ? latestOf(parts.map(({ hiddenAt }) => hiddenAt)) : null,
    goneAt: isComplete ? latestOf(parts.map(({ goneAt }) => goneAt)) : null,
    exports: mergeErasedExports(parts),
    abandonedExports: mergeAbandonedExports(parts),
  };
}

function stateOf(states: ReadonlySet<ErasureState>): ErasureState {
  const [only = 'running'] = states;
  if (states.has('failed')) return 'failed';
  return states.size === 1 ? only : 'running';
}

function latestOf(times: readonly (number | null)[]): number | null {
  return times.reduce((a, b) => (a === null || b === null ? null : Math.max(a, b)));
}
