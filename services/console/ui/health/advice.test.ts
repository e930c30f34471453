import { existsSync } from 'node:fs';
import type { ConsumerLag, LagOutput } from '@questlog/schemas/http/health';
import { expect, test } from 'vitest';
import { adviceOf } from './advice.ts';

const consumer: ConsumerLag = {
  ...{ group: 'questlog-project-events', topic: 'questlog.events.v1' },
  ...{ lagRecords: 7, lagMs: 2_000, retentionMs: 1e9, shareOfRetention: 0, lostRecords: 0, partitions: [] },
};
const well: LagOutput = {
  at: '',
  consumers: [consumer],
  projection: null,
  disk: { freeBytes: 5e9, totalBytes: 1e10 },
};
const whats = (of: Partial<Parameters<typeof adviceOf>[0]>): string[] =>
  adviceOf({ lag: well, ready: {}, rates: undefined, ledger: undefined, ...of }).map(({ what }) => what);
const ofConsumer = (of: Partial<typeof consumer>): string[] =>
  whats({ lag: { ...well, consumers: [{ ...consumer, ...of }] } });

test('gives no advice without problems or without data', () => {
  expect(whats({})).toEqual([]);
  expect(whats({ lag: undefined, ready: undefined })).toEqual([]);
});

test.each([
  ['embedded ClickHouse', 'restarts ClickHouse automatically'],
  ['retention', 'every hour'],
  ['readers', 'Fix the named cause'],
  ['restored', 'Wait'],
  ['broken_parts', 'questlog verify'],
  ['workers', 'restarts the worker automatically'],
])('suggests an action for %s other than more projectors', (name, cure) => {
  const [advice] = adviceOf({
    ...{ lag: well, rates: undefined, ledger: undefined },
    ready: { warnings: { [name]: 'it is so' } },
  });
  expect(advice?.todo).toContain(cure);
});

test('reports only the worst problem of a consumer', () => {
  expect(ofConsumer({ lagMs: 31_000 })).toEqual(['Events to ClickHouse: 31 s and 7 records behind.']);
  expect(ofConsumer({ lagMs: 31_000, shareOfRetention: 0.4 })).toEqual([
    'Events to ClickHouse: the lag is 40 % of the log’s retention; at 100 %, records are lost.',
  ]);
  expect(ofConsumer({ shareOfRetention: 1, lostRecords: 3 })).toEqual([
    'Events to ClickHouse: 3 records are lost.',
  ]);
});

test('reports failed dependencies, errors, missing events, and a full disk', () => {
  expect(whats({ ready: { warnings: { clickhouse: 'ClickHouse does not answer' } } })).toEqual([
    'clickhouse: ClickHouse does not answer.',
  ]);
  const rates = { at: '', events: 0, requests: 1, errors: 1, rejected: 0, p50Ms: 1, p99Ms: 1_500 };
  expect(whats({ rates })).toHaveLength(2);
  const ledger = (events: number) => ({ difference: { events, ageSeconds: 90 } });
  expect(whats({ ledger: ledger(0) })).toEqual([]);
  expect(whats({ ledger: ledger(2) })[0]).toContain('neither in ClickHouse nor in the dead letters');
  const disk = (freeBytes: number) => ({ lag: { ...well, disk: { freeBytes, totalBytes: 1e10 } } });
  expect(whats(disk(9e8))).toEqual(['The disk is almost full.']);
  expect(whats(disk(1e6))).toEqual(['The disk is full.']);
});

test('does not suggest more projectors for a warning that is not about progress', () => {
  const warnings = {
    log_truncated: 'was cut',
    log_cut_short: 'has lost records',
    disk: 'is nearly full',
    partitions_were_added: 'has more',
    dead_letters: '1 waits',
  };
  const advice = adviceOf({
    ...{ lag: well, ready: { warnings }, rates: undefined, ledger: undefined },
  });
  expect(advice.map(({ what }) => what)).toEqual([
    'log_truncated: was cut.',
    'log_cut_short: has lost records.',
    'disk: is nearly full.',
    'partitions_were_added: has more.',
    'dead_letters: 1 waits.',
  ]);
  for (const { todo } of advice) expect(todo).not.toContain('add projectors');
});

test('reports a full disk first, and each stopped consumer once', () => {
  const lag = { ...well, consumers: [{ ...consumer, lagMs: 31_000 }], disk: { freeBytes: 0, totalBytes: 1 } };
  const problem = { [consumer.group]: 'has not moved' };
  // The process of the consumer group reports its own problem. If that process is dead, an ingest reports the problem as a
  // warning.
  for (const ready of [{ problems: problem }, { warnings: problem }]) {
    expect(whats({ lag, ready })).toEqual(['The disk is full.', 'questlog-project-events: has not moved.']);
  }
});

test('names only pages of the documentation that exist', () => {
  const bad = { lagRecords: 1, lagMs: 1e6, lostRecords: 0 };
  const names = [
    'disk',
    'log',
    'log_truncated',
    'log_cut_short',
    'partitions_were_added',
    'retention',
    'dead_letters',
  ];
  const warnings = Object.fromEntries(
    [...names, 'broken_parts', 'clickhouse'].map((name) => [name, 'it is so']),
  );
  const consumers = [bad, { ...bad, lostRecords: 1 }, { ...bad, group: 'questlog-link' }].map((of) => ({
    ...consumer,
    ...of,
  }));
  const rates = { at: '', events: 0, requests: 1, errors: 1, rejected: 0, p50Ms: 1, p99Ms: 1 };
  const ledger = { difference: { events: 1, ageSeconds: 1 } };
  const lag = { ...well, consumers, disk: { freeBytes: 0, totalBytes: 1 } };
  const texts = adviceOf({ lag, ready: { warnings }, rates, ledger }).map(({ todo }) => todo);
  const pages = texts.join(' ').match(/docs\/[\w/-]+\.md/g) ?? [];
  expect(pages.length).toBeGreaterThan(10);
  for (const page of pages) expect(existsSync(page), page).toBe(true);
});
