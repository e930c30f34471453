/** Tests the sharing of the event loop between bodies and tenants. */
import { expect, test } from 'vitest';
import { EventLoopQueue } from './fairSharing.ts';

const nextTurn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
const LARGE = 200 * 1024;

function starting(turns: EventLoopQueue, sizes: readonly number[]): number[] {
  const started: number[] = [];
  for (const [i, bytes] of sizes.entries()) void turns.take('one', bytes).then(() => started.push(i));
  return started;
}

test('processes several small bodies per turn', async () => {
  const started = starting(new EventLoopQueue(), Array(50).fill(500));
  await Promise.resolve();
  expect(started).toHaveLength(50);
});

test('processes one large body per turn, in the order of arrival', async () => {
  const started = starting(new EventLoopQueue(), [LARGE, LARGE, LARGE]);
  await Promise.resolve();
  expect(started).toEqual([0]);
  await nextTurn();
  expect(started).toEqual([0, 1]);
  await nextTurn();
  expect(started).toEqual([0, 1, 2]);
});

test('a small body after a large one waits one turn', async () => {
  const started = starting(new EventLoopQueue(), [LARGE, 1, 1]);
  await Promise.resolve();
  expect(started).toEqual([0]);
  await nextTurn();
  expect(started).toEqual([0, 1, 2]);
});

test('a tenant with a hundred large bodies delays another tenant by one of them', async () => {
  const turns = new EventLoopQueue();
  const started = starting(turns, Array(100).fill(LARGE));
  let others = 0;
  for (let n = 0; n < 3; n++) void turns.take('another', 500).then(() => others++);
  for (let turn = 0; turn < 6; turn++) await nextTurn();
  expect(others).toBe(3);
  expect(started.length).toBeGreaterThan(1);
});

test('processes the first body after a pause at once', async () => {
  const turns = new EventLoopQueue();
  starting(turns, [LARGE]);
  await nextTurn();
  await nextTurn();
  const started = starting(turns, [LARGE]);
  await Promise.resolve();
  expect(started).toEqual([0]);
});
