/** Tests that the queries of a block are split for any number of tenants. */
import { createHash, randomUUID } from 'node:crypto';
import { MAX_IDS_PER_QUERY, type Store } from '@questlog/runtime/clickhouse/store';
import { anEventsRecord } from '@questlog/schemas/fixtures/builders';
import { expect, test } from 'vitest';
import { appendIdsOfStoredEvents, openMinuteCounts } from './storedRows.ts';

test('looks up old records of more tenants than one query supports', async () => {
  const records = Array.from({ length: 4_000 }, (_, offset) => ({ offset, message: anEventsRecord() }));
  const query = async (_: string, params: Record<'tenants' | 'projects' | 'ids', string[]>) => {
    const { tenants, projects, ids } = params;
    expect(Math.max(tenants.length, projects.length, ids.length)).toBeLessThanOrEqual(MAX_IDS_PER_QUERY);
    return ids.map((id) => ({ id }));
  };
  const source = { logId: randomUUID(), partition: 0, orphanIds: [] };
  const found = await appendIdsOfStoredEvents({ query } as unknown as Store, source, 10_000, records);
  expect(found).toEqual(new Set(records.map(({ message }) => message.appendId)));
});

test('queries only the event types of the block, and the answer contains digests instead of types', async () => {
  const [tenantId, projectId] = [randomUUID(), randomUUID()];
  const digestOf = (type: string) => createHash('sha256').update(type).digest('hex');
  const held = new Map(
    Array.from({ length: 5_000 }, (_, i) => [digestOf(`type ü ${i}`), String(i + 1)] as const),
  );
  const query = async (sql: string, { digests }: Record<'digests', string[]>) => {
    expect(sql).not.toMatch(/event_type (AS|,)/);
    expect(digests.length).toBeLessThanOrEqual(MAX_IDS_PER_QUERY);
    return digests.flatMap((digest) => {
      const count = held.get(digest);
      return count === undefined
        ? []
        : [{ tenantId, projectId, minuteS: 60, digest, count, lastOffset: '9' }];
    });
  };
  const source = { logId: randomUUID(), partition: 0, orphanIds: [] };
  const minutes = openMinuteCounts({ query } as unknown as Store, source);
  const keys = [0, 7, 4_999, 5_000].map((i) => ({
    ...{ tenantId, projectId, minuteS: 60 },
    eventType: `type ü ${i}`,
  }));
  await minutes.load(keys);
  for (const key of keys) minutes.rollup.add(key, 10, 1);
  expect(minutes.rollup.drain().map(({ key, count }) => [key.eventType, count])).toEqual([
    ['type ü 0', 2],
    ['type ü 7', 9],
    ['type ü 4999', 5_001],
    ['type ü 5000', 1],
  ]);
});
