/** Tests an export of records of several MiB: a chunk has few of them, so that the export needs little memory. */
import { randomUUID } from 'node:crypto';
import { buffer } from 'node:stream/consumers';
import { planExport } from '@questlog/operations/exports/planExport';
import { readChunk } from '@questlog/operations/exports/readChunk';
import { emptyTables } from '@questlog/runtime/clickhouse/chdb/testing/sharedEngine';
import { PROJECTED } from '@questlog/schemas/tables/projected';
import { EXPORT_FORMATS } from '@questlog/schemas/topics/directoryEntry';
import { expect, test } from 'vitest';

const MIB = 1024 * 1024;
/** Maximum size of an event's payload. */
const PAYLOAD_BYTES = 256 * 1024 - 100;
/** Number of events of a record, which fill the largest body. */
const EVENTS = 32;
const OFFSETS = 12;

test('a chunk has at most 40 MiB of large records, and ClickHouse writes it in every format within its memory limit', async () => {
  const { store } = await emptyTables();
  const [tenantId, id, logId] = [randomUUID(), randomUUID(), randomUUID()];
  await store.command(
    `INSERT INTO events (tenant_id, project_id, log_id, log_partition, id, event_type, occurred_at, received_at, id_at, payload,
       log_offset, log_index)
     WITH toDateTime64('2026-11-01', 3, 'UTC') AS at
     SELECT '${tenantId}', '${id}', '${logId}', 0, generateUUIDv7(), 'kill', at, at, at,
       concat('{"note":"', replaceAll(replaceAll(randomPrintableASCII(${PAYLOAD_BYTES}), '"', ' '), '\\\\', ' '), '"}'),
       64 + intDiv(number, ${EVENTS}), number % ${EVENTS}
     FROM numbers(${OFFSETS * EVENTS}) SETTINGS max_block_size = 100`,
  );
  await store.command(
    `INSERT INTO projected_offset_versions (log_id, topic, partition, table_name, table_uuid, generation, next_offset)
     SELECT '${logId}', '${PROJECTED.events.topic}', 0, name, uuid, 1, 1000 FROM system.tables
     WHERE database = currentDatabase() AND name = 'events'`,
  );
  const project = { tenantId, id };
  const plan = await planExport(store, project, { kind: 'events', from: null, to: null }, []);
  expect(plan.chunks.reduce((sum, { rows }) => sum + rows, 0)).toBe(OFFSETS * EVENTS);
  expect(Math.max(...plan.chunks.map(({ rows }) => rows)) * PAYLOAD_BYTES).toBeLessThanOrEqual(40 * MIB);
  const [{ rows, ...chunk } = expect.fail('the plan is empty')] = plan.chunks;
  for (const format of EXPORT_FORMATS) {
    const input = {
      ...chunk,
      projectId: id,
      kind: 'events',
      format,
      offsets: plan.offsets,
      exceptState: null,
    } as const;
    const read = await readChunk(store, project, input, new AbortController().signal);
    expect(read?.rows).toBe(rows);
    const content = read?.content ?? expect.fail('the chunk has no rows');
    expect((await buffer(content)).length).toBeGreaterThan((rows * PAYLOAD_BYTES) / 2);
  }
});
