/** Tests that a project runs one lookup at a time, and that unknown ids do not keep it busy. */
import { MAX_IDS_PER_QUERY } from '@questlog/runtime/clickhouse/store';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { batchedLookups } from './batchedLookups.ts';

const PAUSE_MS = 50;
let asked: { readonly projectId: string; readonly ids: readonly string[] }[];
let stored: readonly string[];

beforeEach(() => {
  vi.useFakeTimers();
  asked = [];
  stored = [];
});
afterEach(() => {
  vi.useRealTimers();
});

const lookUps = () =>
  batchedLookups<string>(async (projectId, ids) => {
    asked.push({ projectId, ids });
    return ids.filter((id) => stored.includes(id));
  }, PAUSE_MS);

test('answers lookups that arrive during a query with the next one', async () => {
  stored = ['a', 'b', 'c'];
  const lookUp = lookUps();
  const first = lookUp('p', ['a']);
  await vi.advanceTimersByTimeAsync(0);
  const [second, third] = [lookUp('p', ['b']), lookUp('p', ['c'])];
  expect(await Promise.all([first, second, third])).toEqual([['a'], ['b', 'c'], ['b', 'c']]);
  expect(asked).toHaveLength(2);
});

test('pauses a project after a query without rows, and no other project', async () => {
  stored = ['b'];
  const lookUp = lookUps();
  expect(await lookUp('p', ['unknown'])).toEqual([]);
  const [known, again] = [lookUp('p', ['b']), lookUp('p', ['unknown'])];
  expect(await lookUp('other', ['b'])).toEqual(['b']);
  await vi.advanceTimersByTimeAsync(PAUSE_MS - 1);
  expect(asked.map(({ projectId }) => projectId)).toEqual(['p', 'other']);
  await vi.advanceTimersByTimeAsync(1);
  expect(await Promise.all([known, again])).toEqual([['b'], ['b']]);
  expect(asked.at(-1)).toEqual({ projectId: 'p', ids: ['b', 'unknown'] });
  // The previous lookup found a row, so the next lookup starts at once.
  expect(await lookUp('p', ['b'])).toEqual(['b']);
});

test('does not pause if more ids wait than one query takes', async () => {
  const lookUp = lookUps();
  const many = (of: string) => Array.from({ length: MAX_IDS_PER_QUERY }, (_, i) => `${of}${i}`);
  const all = Promise.all([lookUp('p', ['unknown']), lookUp('p', many('a')), lookUp('p', many('b'))]);
  await vi.advanceTimersByTimeAsync(0);
  expect(asked).toHaveLength(2);
  await vi.advanceTimersByTimeAsync(PAUSE_MS);
  await all;
  expect(asked).toHaveLength(3);
});

test('runs the next query after one that fails', async () => {
  const failing = batchedLookups<string>(() => Promise.reject(new Error('it is away')), PAUSE_MS);
  await expect(failing('p', ['a'])).rejects.toThrow('it is away');
  await expect(failing('p', ['a'])).rejects.toThrow('it is away');
});
