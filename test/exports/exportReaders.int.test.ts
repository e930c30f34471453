/** Reads an exported Parquet file with pyarrow, DuckDB, polars, and hyparquet, at pinned versions and with default options. */
import { execFileSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { createWriteStream, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { fileURLToPath } from 'node:url';
import { projectedOffsets } from '@questlog/operations/exports/projectedOffsets';
import { readChunk } from '@questlog/operations/exports/readChunk';
import { emptyTables } from '@questlog/runtime/clickhouse/chdb/testing/sharedEngine';
import { messageOf } from '@questlog/runtime/process/errors';
import { pythonWith } from '@questlog/runtime/process/testing/pythonEnvironment';
import { failIfRequired } from '@questlog/runtime/process/testing/required';
import { PROJECTED } from '@questlog/schemas/tables/projected';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { installPackages } from '../npmPackages.ts';

const REQUIREMENTS = fileURLToPath(new URL('../dataClients/requirements.txt', import.meta.url));
const PYTHON = fileURLToPath(new URL('readParquet.py', import.meta.url));
const HYPARQUET = 'hyparquet@1.33.0';
const READ_WITH_HYPARQUET = `
import { zstdDecompressSync } from 'node:zlib';
import { asyncBufferFromFile, parquetReadObjects } from 'hyparquet';
const file = await asyncBufferFromFile(process.argv[1]);
const rows = await parquetReadObjects({ file, compressors: { ZSTD: zstdDecompressSync } });
console.log(JSON.stringify(rows, (_, value) => (typeof value === 'bigint' ? Number(value) : value)));
`;

const python = await pythonWith(REQUIREMENTS, 'pyarrow, DuckDB, and polars');
const folder = mkdtempSync(join(tmpdir(), 'questlog-parquet-'));
const file = join(folder, 'events.parquet');
const [tenantId = '', projectId = '', logId = '', session = ''] = Array.from({ length: 4 }, () =>
  randomUUID(),
);

beforeAll(async () => {
  const { store } = await emptyTables();
  await store.command(
    `INSERT INTO events (tenant_id, project_id, log_id, log_partition, id, session_id, event_type, occurred_at, received_at, id_at,
       payload, log_offset, log_index)
     SELECT '${tenantId}', '${projectId}', '${logId}', 2, '${projectId}', '${session}', 'kill', '2026-11-01 01:02:03.456789', at, at,
       '{"note": "é"}', 7, 1 FROM (SELECT toDateTime64('2026-11-01 02:00:00', 3, 'UTC') AS at)`,
  );
  await store.command(
    `INSERT INTO projected_offset_versions (log_id, topic, partition, table_name, table_uuid, generation, next_offset)
     SELECT '${logId}', '${PROJECTED.events.topic}', 2, name, uuid, 1, 8
     FROM system.tables WHERE database = currentDatabase() AND name = 'events'`,
  );
  const offsets = await projectedOffsets(store, PROJECTED.events.topic);
  const chunk = await readChunk(
    store,
    { tenantId, id: projectId },
    {
      ...{ projectId, kind: 'events', format: 'parquet', exceptState: null, offsets },
      ...{ day: '2026-11-01', logId, partition: 2, firstOffset: 0, lastOffset: 7 },
    },
    new AbortController().signal,
    () => false,
  );
  await pipeline(chunk?.content ?? [], createWriteStream(file));
});
afterAll(() => rmSync(folder, { recursive: true }));

/** Returns the output of the reader. The Python script prints the values in the same form for all readers. */
function readWith(reader: 'pyarrow' | 'duckdb' | 'polars') {
  if (python === undefined) return undefined;
  return JSON.parse(execFileSync(python, [PYTHON, reader, file], { encoding: 'utf8' }));
}

const row = () =>
  expect.objectContaining({
    ...{ event_type: 'kill', payload: '{"note": "é"}', log_offset: 7, session_id: session, build_id: null },
    ...{ project_id: projectId, over_quota: false },
  });

test('pyarrow reads the types and rows of exported events', ({ skip }) => {
  const output = readWith('pyarrow');
  if (output === undefined) return skip('there is no Python with pyarrow');
  expect(output.compression).toBe('ZSTD');
  expect(output.types).toMatchObject({
    ...{ event_type: 'string', payload: 'string', log_offset: 'uint64', over_quota: 'bool' },
    ...{
      occurred_at: 'timestamp[us, tz=UTC]',
      received_at: 'timestamp[ms, tz=UTC]',
      session_id: 'extension<arrow.uuid>',
    },
  });
  expect(output.rows).toEqual([row()]);
  expect(output.rows[0].occurred_at).toBe('2026-11-01T01:02:03.456789+00:00');
});

test.for(['duckdb', 'polars'] as const)('%s reads the rows of exported events', (reader, { skip }) => {
  const output = readWith(reader);
  if (output === undefined) return skip(`there is no Python with ${reader}`);
  expect(output.rows).toEqual([row()]);
  expect(output.rows[0].occurred_at).toBe('2026-11-01T01:02:03.456789+00:00');
});

test('hyparquet reads the rows of exported events', ({ skip }) => {
  const cwd = hyparquetFolder();
  if (cwd === undefined) return skip('hyparquet cannot be installed');
  const args = ['--input-type=module', '-e', READ_WITH_HYPARQUET, file];
  const rows = JSON.parse(execFileSync(process.execPath, args, { cwd, encoding: 'utf8' }));
  expect(rows).toEqual([row()]);
  expect(rows[0].occurred_at).toBe('2026-11-01T01:02:03.456Z');
});

function hyparquetFolder(): string | undefined {
  try {
    return installPackages('questlog-hyparquet', [HYPARQUET]);
  } catch (error) {
    failIfRequired('npm', messageOf(error));
    console.warn(`skipped: ${HYPARQUET} cannot be installed: ${messageOf(error)}`);
    return undefined;
  }
}
