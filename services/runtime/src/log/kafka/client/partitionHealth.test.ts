/** Unavailable partitions are logged once. They expire if there are no further attempts. */
import { expect, onTestFinished, test, vi } from 'vitest';
import type { Fields } from '../../../process/logger.ts';
import { PartitionHealth } from './partitionHealth.ts';

const PLACE = { operation: 'append', topic: 'events', partition: 3 } as const;

test('lists a partition from its first failure on, and logs the failure and the recovery once', () => {
  const { health, reported, pass } = aList();
  const watch = health.watch(PLACE);
  expect(health.list()).toEqual([]);
  watch.failed(new Error('no answer yet'));
  pass(40_000);
  watch.failed(new Error('no leader'));
  pass(10_000);
  expect(health.list()).toEqual([{ ...PLACE, outageMs: 50_000, cause: 'no leader' }]);
  watch.recovered();
  watch.recovered();
  expect(health.list()).toEqual([]);
  expect(reported).toEqual([
    ['log_appending_interrupted', { topic: 'events', partition: 3, cause: 'no answer yet' }],
    ['log_appending_resumed', { topic: 'events', partition: 3, outageMs: 50_000 }],
  ]);
});

test('lists a partition of several readers once until all have recovered', () => {
  const { health, reported, pass } = aList();
  const place = { ...PLACE, operation: 'read' } as const;
  const [first, second] = [health.watch(place, { group: 'a' }), health.watch(place, { group: 'b' })];
  first.failed(new Error('first'));
  pass(1000);
  second.failed(new Error('second'));
  health.watch(PLACE).failed(new Error('third'));
  expect(health.list().map(({ operation, outageMs }) => [operation, outageMs])).toEqual([
    ['read', 1000],
    ['append', 0],
  ]);
  first.end();
  expect(health.list().map(({ cause }) => cause)).toEqual(['second', 'third']);
  second.recovered();
  expect(health.list()).toMatchObject([{ operation: 'append' }]);
  expect(reported[0]?.[1]).toMatchObject({ group: 'a' });
});

test('drops a partition without an attempt for a minute', () => {
  const { health, pass } = aList();
  health.watch(PLACE).failed(new Error('no answer yet'));
  pass(60_000);
  expect(health.list()).toHaveLength(1);
  pass(1);
  expect(health.list()).toEqual([]);
});

function aList() {
  vi.useFakeTimers({ toFake: ['performance'] });
  onTestFinished(() => void vi.useRealTimers());
  const reported: [string, Fields | undefined][] = [];
  const report = (event: string, fields?: Fields) => void reported.push([event, fields]);
  const health = new PartitionHealth({ info: report, warn: report, error: () => undefined });
  return { health, reported, pass: (ms: number) => vi.advanceTimersByTime(ms) };
}
