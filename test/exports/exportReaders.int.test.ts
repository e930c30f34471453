/** Reads an exported Parquet file with pyarrow, as polars, pandas, and dbt do. */
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
import { pythonWith } from '@questlog/runtime/process/testing/pythonEnvironment';
import { PROJECTED } from '@questlog/schemas/tables/projected';
import { expect, onTestFinished, test } from 'vitest';

const REQUIREMENTS = fileURLToPath(new URL('../dataClients/requirements.txt', import.meta.url));
const READ = `
import json, sys, pyarrow.parquet as parquet
file = parquet.ParquetFile(sys.argv[1])
print(json.dumps({
    "compression": file.metadata.row_group(0).column(0).compression,
    "types": {field.name: str(field.type) for field in file.schema_arrow},
    "rows": file.read().to_pylist(),
}, default=str))
`;

const python = await pythonWith(REQUIREMENTS, 'pyarrow');

test('pyarrow reads the types and rows of exported events', async ({ skip }) => {
  if (python === undefined) return skip('there is no Python with pyarrow');
  const { store } = await emptyTables();
  const [tenantId, projectId, logId, session] = Array.from({ length: 4 }, () => randomUUID());
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
    { tenantId: String(tenantId), id: String(projectId) },
    {
      ...{ projectId: String(projectId), kind: 'events', format: 'parquet', exceptState: null, offsets },
      ...{ day: '2026-11-01', logId: String(logId), partition: 2, firstOffset: 0, lastOffset: 7 },
    },
    new AbortController().signal,
  );
  const folder = mkdtempSync(join(tmpdir(), 'questlog-parquet-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const file = join(folder, 'events.parquet');
  await pipeline(chunk?.content ?? [], createWriteStream(file));
  const { compression, types, rows } = JSON.parse(
    execFileSync(python, ['-c', READ, file], { encoding: 'utf8' }),
  );
  expect(compression).toBe('ZSTD');
  expect(types).toMatchObject({
    ...{ event_type: 'string', payload: 'string', log_offset: 'uint64', over_quota: 'bool' },
    ...{
      occurred_at: 'timestamp[us, tz=UTC]',
      received_at: 'timestamp[ms, tz=UTC]',
      session_id: 'extension<arrow.uuid>',
    },
  });
  expect(rows).toEqual([
    expect.objectContaining({
      ...{ event_type: 'kill', payload: '{"note": "é"}', log_offset: 7, session_id: session, build_id: null },
      ...{ occurred_at: '2026-11-01 01:02:03.456789+00:00', project_id: projectId },
    }),
  ]);
});
