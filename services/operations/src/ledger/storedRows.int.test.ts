/** Tests on the real engine which minutes have counts that differ from their rows. */
import { randomUUID } from 'node:crypto';
import { sharedStore } from '@questlog/runtime/clickhouse/chdb/testing/storedReports';
import { NEVER_WRITTEN } from '@questlog/schemas/tables/erasedEvents';
import { expect, test } from 'vitest';
import { openStoredRows } from './storedRows.ts';

const shared = sharedStore();

test('counts an erasure in parts once, also after a new projection recorded it again, and still reports a lost row', async () => {
  const [tenantId, logId, erasureId] = [randomUUID(), randomUUID(), randomUUID()];
  const minute = '2026-11-22 00:00:00';
  await shared.store.command(
    `INSERT INTO event_counts_by_partition (tenant_id, project_id, minute, event_type, log_id, log_partition, count, last_offset, weight) VALUES
     ('${tenantId}', '${randomUUID()}', '${minute}', 'a', '${logId}', 0, 4, 7, 4)`,
  );
  const told = async (part: number, events: number): Promise<void> =>
    await shared.store.command(
      `INSERT INTO erased_events VALUES
       ('${erasureId}', ${part}, '${tenantId}', '${minute}', '${logId}', 0, 7, ${events})`,
    );
  const fromMs = Date.UTC(2026, 10, 22);
  const miscounted = async () =>
    await openStoredRows(shared.store).miscountedMinutes({ fromMs, toMs: fromMs + 60_000, tenantId }, 10);
  await told(0, 2);
  await told(1, 1);
  await told(NEVER_WRITTEN, 3);
  expect(await miscounted()).toMatchObject([{ tenantId, found: 4 }]);
  await told(NEVER_WRITTEN, 4);
  expect(await miscounted()).toEqual([]);
});
