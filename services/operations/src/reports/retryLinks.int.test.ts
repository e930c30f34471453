/** Tests retries of links over many reports on the real engine. */
import { randomUUID } from 'node:crypto';
import { addLinks, addReports, sharedStore } from '@questlog/runtime/clickhouse/chdb/testing/storedReports';
import type { Store } from '@questlog/runtime/clickhouse/store';
import { expect, test } from 'vitest';
import { retryLinks } from './retryLinks.ts';

const NOON_MS = Date.UTC(2026, 10, 21, 12);
const shared = sharedStore();

test('unresolved reports do not prevent retries of other reports', async () => {
  const { store } = shared;
  const projectId = randomUUID();
  await addReports(store, { projectId, count: 2_500, receivedAt: `${NOON_MS} + number` });
  const all = Array.from({ length: 2_500 }, (_, number) => number);
  await addLinks(store, { projectId, reports: all, state: 'unresolved', changedAt: NOON_MS });
  const retried = new Set<string>();
  for (let round = 1; round <= 3; round++) {
    const before = retried.size;
    const now = await retriedOf(store, projectId);
    for (const id of now) retried.add(id);
    expect([now.length, retried.size - before]).toEqual([1_000, round === 3 ? 500 : 1_000]);
    // The linker writes each link as unresolved again.
    const reports = now.map((id) => Number.parseInt(id.slice(-12), 16));
    await addLinks(store, { projectId, reports, state: 'unresolved', changedAt: NOON_MS + round });
  }
  expect(retried.size).toBe(2_500);
});

async function retriedOf(store: Store, projectId: string): Promise<string[]> {
  const ids: string[] = [];
  const appendReport = async ({ reportId }: { reportId: string }) => void ids.push(reportId);
  await retryLinks({ store, appendReport }, { projectId });
  return ids;
}
