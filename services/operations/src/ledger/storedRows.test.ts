/** Tests that the verification splits its queries to ClickHouse if a batch has many records. */
import { randomUUID } from 'node:crypto';
import { MAX_IDS_PER_QUERY, type Store } from '@questlog/runtime/clickhouse/store';
import { expect, test } from 'vitest';
import type { LoggedRecord } from './core/compareRecords.ts';
import { openStoredRows } from './storedRows.ts';

test('explains a batch of duplicate appends that is too large for one query', async () => {
  const records = Array.from({ length: 4_000 }, (_, offset): LoggedRecord => {
    const [tenantId, projectId] = [randomUUID(), randomUUID()];
    const of = { partition: 0, offset, tenantId, projectId, receivedAtMs: 1, appendId: randomUUID() };
    return { ...of, events: 1, hidden: 0, firstId: randomUUID() };
  });
  const query = async (_: string, params: Record<'tenants' | 'projects' | 'ids', string[]>) => {
    const { tenants, projects, ids } = params;
    expect(Math.max(tenants.length, projects.length, ids.length)).toBeLessThanOrEqual(MAX_IDS_PER_QUERY);
    return ids.map((id) => ({ id }));
  };
  const storedRows = openStoredRows({ query } as unknown as Store);
  expect(await storedRows.storedByOtherRecords(records)).toEqual(new Set(records));
});
