/** Unavailable partitions are logged once and expire without further attempts. */
import { expect, onTestFinished, test, vi } from 'vitest';
import type { Fields } from '../../../process/logger.ts';
import { PartitionHealth } from './partitionHealth.ts';

const PLACE = { operation: 'append', topic: 'events', partition: 3 } as const;

test('lists a partition from its first failure on, and logs the failure and the recovery once', () => {
  const { sick, told, pass } = aList();
  const watch = sick.watch(PLACE);
  expect(sick.list()).toEqual([]);
  watch.failed(new Error('no answer yet'));
  pass(40_000);
  watch.failed(new Error('no leader'));
  pass(10_000);
  expect(sick.list()).toEqual([{ ...PLACE, outageMs: 50_000, cause: 'no leader' }]);
  watch.recovered();
  watch.recovered();
  expect(sick.list()).toEqual([]);
  expect(told).toEqual([
    ['log_appending_interrupted', { topic: 'events', partition: 3, cause: 'no answer yet' }],
    ['log_appending_resumed', { topic: 'events', partition: 3, outageMs: 50_000 }],
  ]);
});

test('lists a partition of several readers once until all have recovered', () => {
  const { sick, told, pass } = aList();
  const place = { ...PLACE, operation: 'read' } as const;
  const [first, second] = [sick.watch(place, { group: 'a' }), sick.watch(place, { group: 'b' })];
  first.failed(new Error('first'));
  pass(1000);
  second.failed(new Error('second'));
  sick.watch(PLACE).failed(new Error('third'));
  expect(sick.list().map(({ operation, outageMs }) => [operation, outageMs])).toEqual([
    ['read', 1000],
    ['append', 0],
  ]);
  first.end();
  expect(sick.list().map(({ cause }) => cause)).toEqual(['second', 'third']);
  second.recovered();
  expect(sick.list()).toMatchObject([{ operation: 'append' }]);
  expect(told[0]?.[1]).toMatchObject({ group: 'a' });
});

test('drops a partition without an attempt for a minute', () => {
  const { sick, pass } = aList();
  sick.watch(PLACE).failed(new Error('no answer yet'));
  pass(60_000);
  expect(sick.list()).toHaveLength(1);
  pass(1);
  expect(sick.list()).toEqual([]);
});

function aList() {
  vi.useFakeTimers({ toFake: ['performance'] });
  onTestFinished(() => void vi.useRealTimers());
  const told: [string, Fields | undefined][] = [];
  const tell = (event: string, fields?: Fields) => void told.push([event, fields]);
  const sick = new PartitionHealth({ info: tell, warn: tell, error: () => undefined });
  return { sick, told, pass: (ms: number) => vi.advanceTimersByTime(ms) };
}
