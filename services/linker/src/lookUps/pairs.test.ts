/** Tests that lookups split their queries for any number of reports. */
import { randomUUID } from 'node:crypto';
import { MAX_IDS_PER_QUERY, type Store } from '@questlog/runtime/clickhouse/store';
import { aReportLink } from '@questlog/schemas/fixtures/builders';
import { expect, test } from 'vitest';
import { keyOf } from '../core/decision.ts';
import type { LinkQuery } from '../core/jobs.ts';
import { silentStore } from '../testing/partitionDeps.ts';
import { unlinkedPairs } from './pairs.ts';

const record = aReportLink();

function asksOf(count: number): LinkQuery[] {
  return Array.from({ length: count }, (_, i) => {
    const one = i === 0 ? record : aReportLink();
    const session = { id: randomUUID(), fromMicros: 0n, toMicros: 1n, excludedEventIds: [] };
    return { key: keyOf(one), record: one, events: new Map(), session };
  });
}

/** @param rows the result of the query by session for each report */
async function lookUp(asks: readonly LinkQuery[], rows: readonly unknown[]) {
  const lists: string[][] = [];
  const query = async (_: string, params: Readonly<Record<string, unknown>> = {}) => {
    const own = Object.values(params).filter(Array.isArray);
    lists.push(...own);
    return own.some((list) => list.includes(record.reportId)) ? rows : [];
  };
  const store = { ...silentStore, query } as Store;
  const { isComplete } = await unlinkedPairs(
    { store, logId: randomUUID(), partition: 0, partitions: 1 },
    asks,
    10,
  );
  return { isComplete, lists };
}

test('queries all reports of late sessions, with several queries if necessary', async () => {
  const asks = asksOf(4_000);
  const { isComplete, lists } = await lookUp(asks, []);
  expect(isComplete).toBe(true);
  expect(Math.max(...lists.map((list) => list.length))).toBeLessThanOrEqual(MAX_IDS_PER_QUERY);
  expect(new Set(asks.map((ask) => ask.record.reportId)).difference(new Set(lists.flat()))).toEqual(
    new Set(),
  );
});

test('a lookup is incomplete if its first reports fill the answer', async () => {
  const place = { id: randomUUID(), payloadBytes: '0', logPartition: 0, logOffset: '1', logIndex: 0 };
  const rows = Array.from({ length: 20_000 }, () => ({ ...record, ...place }));
  expect((await lookUp(asksOf(4_000), rows)).isComplete).toBe(false);
});
