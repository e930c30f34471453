/**
 * Measures the memory of an export to a bucket. `npm run bench:export -- <rows> <format>` inserts events into an embedded ClickHouse
 * with a process of its own, and prints the peak memory of both processes. A third process is the S3 server, which stores no file.
 */
import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { planExport } from '@questlog/operations/exports/planExport';
import { readChunk } from '@questlog/operations/exports/readChunk';
import { startEngineProcess } from '@questlog/runtime/clickhouse/chdb/engineProcess';
import { openMigrated } from '@questlog/runtime/clickhouse/migrate';
import { openBucketFolder } from '@questlog/runtime/exports/bucketFolder';
import { runExport } from '@questlog/runtime/exports/runExport';
import { silentLogger } from '@questlog/runtime/process/logger';
import { PROJECTED } from '@questlog/schemas/tables/projected';
import { EXPORT_FORMATS } from '@questlog/schemas/topics/directoryEntry';
import { memoryOf, resetPeak } from '../processFigures.ts';

const { positionals } = parseArgs({ allowPositionals: true });
const [rowsText = '2000000', formats = 'parquet'] = positionals;
const rows = Number(rowsText);
/** Rows of one INSERT. */
const STEP = 100_000;
const MIB = 1024 * 1024;
/** Program of an S3 server that prints its port. The server accepts every file, and stores no file. */
const EMPTY_BUCKET = `require('node:http').createServer((request, response) => {
  const isWrite = request.method === 'PUT' || request.method === 'DELETE' || request.url.includes('list-type');
  request.resume().on('end', () => response.writeHead(isWrite ? 200 : 404).end(isWrite ? '<ListBucketResult/>' : '<Error><Code>NoSuchKey</Code></Error>'));
}).listen(0, '127.0.0.1', function () { console.log(this.address().port); });`;
const bucket = spawn(process.execPath, ['-e', EMPTY_BUCKET], { stdio: ['ignore', 'pipe', 'inherit'] });
const [port] = await once(bucket.stdout, 'data');
const s3 = {
  ...{
    endpoint: `http://127.0.0.1:${String(port).trim()}`,
    publicEndpoint: '',
    bucket: 'b',
    region: 'us-east-1',
  },
  ...{ accessKeyId: 'id', secretAccessKey: 'secret' },
};
const directory = mkdtempSync(join(tmpdir(), 'questlog-export-bench-'));
const account = { username: 'test', password: 'test' };
const server = await startEngineProcess({ directory, ...account }, silentLogger);
const store = await openMigrated(
  { url: server.url, ...account, database: 'questlog' },
  fileURLToPath(new URL('../../../deploy/clickhouse', import.meta.url)),
);
const children = readFileSync(`/proc/${process.pid}/task/${process.pid}/children`, 'utf8')
  .trim()
  .split(' ')
  .map(Number);
const engine = children.sort((a, b) => memoryOf(b).rssBytes - memoryOf(a).rssBytes)[0] ?? 0;
try {
  const [tenantId, id, logId] = [randomUUID(), randomUUID(), randomUUID()];
  const start = performance.now();
  for (let first = 0; first < rows; first += STEP)
    await store.command(
      `INSERT INTO events (tenant_id, project_id, log_id, log_partition, id, session_id, event_type, occurred_at, received_at, id_at,
         payload, log_offset, log_index)
       WITH toDateTime64('2026-11-01', 3, 'UTC') + INTERVAL intDiv(number * 5, ${rows}) DAY + INTERVAL number % 86000 SECOND AS at
       SELECT '${tenantId}', '${id}', '${logId}', number % 4, generateUUIDv7(), generateUUIDv4(), 'kill', at, at, at,
         concat('{"level":', toString(number % 100), ',"weapon":"', ['sword', 'bow', 'axe'][number % 3 + 1], '","position":{"x":',
           toString(rand32(1) % 10000), ',"y":', toString(rand32(2) % 10000), '},"note":"', lower(hex(rand64(3))), '"}'),
         intDiv(number, 4), 1
       FROM numbers(${first}, ${Math.min(STEP, rows - first)}) SETTINGS max_insert_threads = 1, max_threads = 1, max_block_size = 50000, max_insert_block_size = 100000, min_insert_block_size_rows = 100000`,
    );
  process.stdout.write(`inserted ${rows} rows in ${((performance.now() - start) / 1000).toFixed(0)} s\n`);
  const { topic, table } = PROJECTED.events;
  await store.command(
    `INSERT INTO projected_offset_versions (log_id, topic, partition, table_name, table_uuid, generation, next_offset)
     SELECT '${logId}', '${topic}', number, '${table}', (SELECT uuid FROM system.tables WHERE database = currentDatabase() AND name = '${table}'), 1, ${rows}
     FROM numbers(4)`,
  );
  for (const format of EXPORT_FORMATS.filter((name) => formats.split(',').includes(name))) {
    const before = memoryOf(process.pid).rssBytes;
    for (const pid of [process.pid, engine]) resetPeak(pid);
    const engineBefore = memoryOf(engine);
    const project = { tenantId, id };
    const begin = performance.now();
    const folder = await openBucketFolder(s3, format);
    const { files: all } = await runExport({
      source: {
        plan: (request, after) => planExport(store, project, request, after),
        read: (chunk, signal) => readChunk(store, project, chunk, signal, () => false),
      },
      folder,
      request: { projectId: id, kind: 'events', format, from: null, to: null },
      isRefresh: false,
      signal: new AbortController().signal,
      onProgress: () => {},
    });
    await folder.close();
    const seconds = (performance.now() - begin) / 1000;
    const exported = all.reduce((sum, file) => sum + file.rows, 0);
    const bytes = all.reduce((sum, file) => sum + file.bytes, 0);
    const largest = Math.max(...all.map((file) => file.bytes));
    const own = memoryOf(process.pid).peakBytes;
    const peak = memoryOf(engine);
    process.stdout.write(
      `${format}: ${exported} rows, ${all.length} files, ${Math.round(bytes / MIB)} MiB, largest ${Math.round(largest / MIB)} MiB, ${seconds.toFixed(0)} s; ` +
        `product peak ${Math.round(own / MIB)} MiB (+${Math.round((own - before) / MIB)}), ClickHouse peak ${Math.round(peak.peakBytes / MIB)} MiB (before ${Math.round(engineBefore.rssBytes / MIB)})\n`,
    );
  }
} finally {
  bucket.kill();
  await store.close();
  await server.close();
  rmSync(directory, { recursive: true, force: true });
}
