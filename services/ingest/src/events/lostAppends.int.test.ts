/** Tests the report of lost appends with the real table. */
import { randomUUID } from 'node:crypto';
import { sharedStore } from '@questlog/runtime/clickhouse/chdb/testing/storedReports';
import type { Log } from '@questlog/runtime/log/log';
import { silentLogger } from '@questlog/runtime/process/logger';
import { createMetricsRegistry } from '@questlog/runtime/process/metrics';
import { TOPICS } from '@questlog/schemas/topics/topics';
import { expect, test } from 'vitest';
import { ingestMetrics } from '../metrics.ts';
import { reportLostAppends } from './lostAppends.ts';

const shared = sharedStore();

test('writes the lost appends and their times to `truncations`', async () => {
  const [logId, ids] = [randomUUID(), [randomUUID(), randomUUID()]];
  const lost = ids.map((appendId, i) => ({ appendId, events: 3, receivedAt: 1_790_000_000_000 + i }));
  const deps = {
    ...{ store: shared.store, log: { id: logId } as Log, logger: silentLogger },
    metrics: ingestMetrics(createMetricsRegistry()),
    clock: { now: () => 1_790_000_009_000 },
  };
  const cut = { topic: TOPICS.events, partition: 3, offset: 7 };
  await reportLostAppends(deps, cut, lost, new AbortController().signal, 0);
  const rows = await shared.store.query(
    `SELECT topic, log_partition AS partition, first_offset AS first, end_offset AS end, last_record AS by, records,
       stored_rows AS rows, ids, first_received_at AS firstAt, last_received_at AS lastAt, found_at AS at, repaired
     FROM truncations WHERE log_id = {logId:UUID}`,
    { logId },
  );
  expect(rows).toEqual([
    {
      ...{ topic: TOPICS.events, partition: 3, first: '7', end: '9', by: 'acknowledged by an ingest' },
      ...{ records: '2', rows: '0', ids, repaired: 1 },
      firstAt: '2026-09-21 14:13:20.000',
      lastAt: '2026-09-21 14:13:20.001',
      at: '2026-09-21 14:13:29.000',
    },
  ]);
});
