/** A late commit is corrected. No commit is sent if no late commit is possible. */
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { LateCommits } from './lateCommits.ts';

const MINUTE_MS = 60_000;

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

test('repeats the last commit while an older one can still arrive', async () => {
  const { late, commit, again } = aPartition();
  late.failed('t/0', new Error('lost'));
  commit('newest');
  await vi.advanceTimersByTimeAsync(MINUTE_MS);
  expect(again.length).toBeGreaterThan(10);
  expect(new Set(again)).toEqual(new Set(['newest']));
  await vi.advanceTimersByTimeAsync(10 * MINUTE_MS);
  const sent = again.length;
  await vi.advanceTimersByTimeAsync(60 * MINUTE_MS);
  expect(again).toHaveLength(sent);
});

test('repeats nothing for a partition with new commits', async () => {
  const { late, commit, again } = aPartition();
  late.failed('t/0', new Error('lost'));
  for (let second = 0; second < 60; second += 1) {
    commit(`${second}`);
    await vi.advanceTimersByTimeAsync(1_000);
  }
  expect(again).toEqual([]);
});

test('a repeated commit of unknown outcome can arrive late too', async () => {
  const { late, again, fail } = aPartition();
  late.failed('t/0', new Error('lost'));
  await vi.advanceTimersByTimeAsync(9 * MINUTE_MS);
  fail.next = new Error('lost again');
  await vi.advanceTimersByTimeAsync(2 * MINUTE_MS);
  const sent = again.length;
  await vi.advanceTimersByTimeAsync(7 * MINUTE_MS);
  expect(again.length).toBeGreaterThan(sent);
});

test('repeats nothing for a lost partition or after a rejected commit', async () => {
  const { late, again, owner } = aPartition();
  late.failed('t/0', new Error('refused'));
  await vi.advanceTimersByTimeAsync(MINUTE_MS);
  late.failed('t/0', new Error('lost'));
  owner.isOwned = false;
  await vi.advanceTimersByTimeAsync(MINUTE_MS);
  expect(again).toEqual([]);
});

/** Returns a partition that has committed once. `again` contains the repeated commits. */
function aPartition() {
  const late = new LateCommits((error) => String(error).includes('lost'));
  const again: string[] = [];
  const owner = { isOwned: true };
  const fail: { next: Error | undefined } = { next: undefined };
  const commit = (what: string): void =>
    late.started('t/0', {
      resend: async () => {
        again.push(what);
        const error = fail.next;
        fail.next = undefined;
        if (error !== undefined) throw error;
      },
      isOwned: () => owner.isOwned,
    });
  commit('first');
  return { late, commit, again, owner, fail };
}
