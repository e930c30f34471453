/** Tests on the real engine which stored rows are read and counted. `projector.int.test.ts` tests the ledger's difference. */
import { randomUUID } from 'node:crypto';
import { millisOf } from '@questlog/schemas/uuid';
import { expect, test } from 'vitest';
import { numbered, sharedStore } from './chdb/testing/storedReports.ts';
import { lostRecordsOf, storedEvents } from './storedEvents.ts';

const shared = sharedStore();

/** Inserts one event for each log offset. The number in the event's id is the offset. */
async function insertEvents(
  owner: { tenantId: string; projectId: string },
  logId: string,
  offsets: number[],
) {
  const rows = offsets.map((offset) => {
    const id = numbered(offset);
    return `('${owner.tenantId}', '${owner.projectId}', '${id}', fromUnixTimestamp64Milli(${millisOf(id)}),
      fromUnixTimestamp64Milli(${1_000 * offset}), '${logId}', 0, ${offset})`;
  });
  await shared.store.command(
    `INSERT INTO events (tenant_id, project_id, id, id_at, received_at, log_id, log_partition, log_offset)
     VALUES ${rows.join(', ')}`,
  );
}

test('returns an event with two rows once, and no event of another project', async () => {
  const [tenantId, projectId, other, logId] = [randomUUID(), randomUUID(), randomUUID(), randomUUID()];
  const ids = [1, 2, 3, 4].map(numbered);
  await insertEvents({ tenantId, projectId }, logId, [1, 2, 3]);
  await insertEvents({ tenantId, projectId }, logId, [1]);
  await insertEvents({ tenantId, projectId: other }, logId, [1, 4]);
  const owners = [{ tenantId, projectId }];
  const found = await storedEvents<{ id: string }>(shared.store, 'id', { ids, owners });
  expect(found.map(({ id }) => id).toSorted()).toEqual([1, 2, 3].map(numbered));
  const filter = { ids, owners, where: 'log_offset < {end:UInt64}', parameters: { end: 3 } };
  expect(await storedEvents(shared.store, 'id', filter)).toHaveLength(2);
});

test('counts the records with stored rows at and above the first lost offset', async () => {
  const [logId, otherLog] = [randomUUID(), randomUUID()];
  const owner = { tenantId: randomUUID(), projectId: randomUUID() };
  await insertEvents(owner, logId, [5, 6, 9]);
  await insertEvents(owner, otherLog, [7]);
  const tables = { rows: { table: 'events', where: '1' }, ids: 'groupArray(id)', at: 'received_at' };
  const lost = await lostRecordsOf(shared.store, { logId, partition: 0 }, tables, 6);
  const { ids, ...counts } = lost;
  expect(counts).toEqual({ records: '2', rows: '2', firstMs: '6000', lastMs: '9000' });
  expect(ids.toSorted()).toEqual([6, 9].map(numbered));
  expect(await lostRecordsOf(shared.store, { logId, partition: 1 }, tables, 0)).toMatchObject({
    ...{ records: '0', rows: '0', ids: [], firstMs: null },
  });
});
