/** Tests an export of records of several MiB: a chunk has few of these records, so that the export needs little memory. */
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
/** Number of events of a record. These events fill the largest request body. */
const EVENTS = 32;
const OFFSETS = 12;

test('a chunk has at most 40 MiB of large records, and ClickHouse writes the chunk in every format within the memory limit', async () => {
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
    const read = await readChunk(store, project, input, new AbortController().signal, () => false);
    expect(read?.rows).toBe(rows);
    const content = read?.content ?? expect.fail('the chunk has no rows');
    expect((await buffer(content)).length).toBeGreaterThan((rows * PAYLOAD_BYTES) / 2);
  }
});

test.each([
  ['events', 'event_type', `repeat('k', ${PAYLOAD_BYTES})`],
  ['reports', 'title', `repeat('t', ${PAYLOAD_BYTES})`],
  ['reports', 'event_ids', `arrayWithConstant(intDiv(${PAYLOAD_BYTES}, 40), generateUUIDv4())`],
  [
    ...(['reports', 'attachments'] as const),
    `arrayWithConstant(intDiv(${PAYLOAD_BYTES}, 700), (generateUUIDv4(), '', 'f', 'm', toUInt64(1), 'stored'))`,
  ],
] as const)(
  'a plan of %s limits the size of a chunk with large values of %s',
  async (kind, column, value) => {
    const { store } = await emptyTables();
    const [tenantId, id, logId] = [randomUUID(), randomUUID(), randomUUID()];
    const { topic, table } = PROJECTED[kind];
    const count = 100;
    await store.command(
      `INSERT INTO ${table} (tenant_id, project_id, id, received_at, ${column}, log_id, log_partition, log_offset)
     SELECT '${tenantId}', '${id}', generateUUIDv4(), '2026-11-01', ${value}, '${logId}', 0, number
     FROM numbers(${count}) SETTINGS max_block_size = 10`,
    );
    await store.command(
      `INSERT INTO projected_offset_versions (log_id, topic, partition, table_name, table_uuid, generation, next_offset)
     SELECT '${logId}', '${topic}', 0, name, uuid, 1, 1000 FROM system.tables
     WHERE database = currentDatabase() AND name = '${table}'`,
    );
    const request = { kind, format: 'ndjson', from: null, to: null } as const;
    const { chunks } = await planExport(store, { tenantId, id }, request, []);
    expect(chunks.reduce((sum, { rows }) => sum + rows, 0)).toBe(count);
    expect(Math.max(...chunks.map(({ rows }) => rows)) * PAYLOAD_BYTES).toBeLessThanOrEqual(16 * MIB);
  },
);
