/**
 * Tests `questlog export` on the real engine: killed commands, new and erased rows, truncations, restored tables, a full disk, and
 * the other formats.
 */
import { hash, randomUUID } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { adminEndpoint } from '@questlog/cli/connection';
import { adminSource } from '@questlog/cli/exports/adminSource';
import { openLocalFolder } from '@questlog/cli/exports/localFolder';
import { SeededRandom } from '@questlog/cli/simulate/core/seededRandom';
import { emptyTables, type SharedEngine } from '@questlog/runtime/clickhouse/chdb/testing/sharedEngine';
import { runExport } from '@questlog/runtime/exports/runExport';
import { Rejected } from '@questlog/runtime/http/rejected';
import { PROJECTED, type Projected } from '@questlog/schemas/tables/projected';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { questlogCommand, running } from '../e2e/questlogCommand.ts';
import { smallDisk } from '../smallDisk.ts';
import { filesIn, insertFiles, manifestIn, serveExports } from './exportedFolder.ts';

const [tenantId, id, logId] = [randomUUID(), randomUUID(), randomUUID()];
const PROJECT = { tenantId, id, name: 'a game', revision: null, createdAt: 0 };
const DAYS = 2;
const PARTITIONS = 3;
const ROWS = 12_000;

let engine: SharedEngine;

beforeAll(async () => {
  engine = await emptyTables();
  await engine.store.command('CREATE TABLE exported AS events');
  await insertEvents(0, ROWS);
});
afterAll(() => engine.store.command('DROP TABLE exported'));

/** Inserts events of several days and partitions. The offset of an event is its number divided by the number of partitions. */
async function insertEvents(first: number, count: number): Promise<void> {
  await engine.store.command(
    `INSERT INTO events (tenant_id, project_id, log_id, log_partition, id, session_id, event_type, occurred_at, received_at, id_at,
       payload, log_offset, log_index)
     WITH toDateTime64('2026-11-01', 3, 'UTC') + INTERVAL number % ${DAYS} DAY AS at
     SELECT '${tenantId}', '${id}', '${logId}', number % ${PARTITIONS}, generateUUIDv7(), if(number % 2, generateUUIDv4(), NULL), 'kill',
       at, at, at, concat('{"note":"', randomPrintableASCII(200), '"}'), intDiv(number, ${PARTITIONS}), 1
     FROM numbers(${first}, ${count})`,
  );
}

async function publish(kind: Projected, nextOffset: number, generation = 1): Promise<void> {
  const { topic, table } = PROJECTED[kind];
  await engine.store.command(
    `INSERT INTO projected_offset_versions (log_id, topic, partition, table_name, table_uuid, generation, next_offset)
     SELECT '${logId}', '${topic}', number, '${table}',
            (SELECT uuid FROM system.tables WHERE database = currentDatabase() AND name = '${table}'), ${generation}, ${nextOffset}
     FROM numbers(${PARTITIONS})`,
  );
}

function outputFolder(): { output: string; folderOf(kind: Projected): string } {
  const output = mkdtempSync(join(tmpdir(), 'questlog-export-'));
  onTestFinished(() => rmSync(output, { recursive: true, force: true }));
  return { output, folderOf: (kind) => join(output, kind, id) };
}

const argumentsFor = (kind: Projected, output: string, ...more: readonly string[]) => [
  ...['export', kind, '--project', id, '--output', output],
  ...more,
];

/** Exports in this process, which is faster than the command. */
async function exportTo(
  folder: string,
  { QUESTLOG_ADMIN_URL: url = '', QUESTLOG_ADMIN_TOKEN: token = '' }: Readonly<Record<string, string>>,
  of: { kind?: Projected; format?: 'parquet' | 'csv'; isRefresh?: boolean } = {},
) {
  const { kind = 'events', format = 'parquet', isRefresh = false } = of;
  const opened = await openLocalFolder(folder);
  try {
    return await runExport({
      ...{ source: adminSource(adminEndpoint(url, token)), folder: opened, isRefresh },
      request: { projectId: id, kind, format, from: null, to: null },
      signal: new AbortController().signal,
      onProgress: () => {},
    });
  } finally {
    await opened.close();
  }
}

/** Expects that the folder has exactly the files of its manifest, and that their rows are the rows of ClickHouse. */
async function expectAllRows(folder: string, nextOffset: number): Promise<void> {
  const { files } = manifestIn(folder);
  expect(filesIn(folder)).toEqual([...files.map(({ name }) => name), 'manifest.json'].sort());
  for (const { name, bytes, sha256 } of files) {
    const content = readFileSync(join(folder, name));
    expect([content.length, hash('sha256', content)]).toEqual([bytes, sha256]);
  }
  await engine.store.command('TRUNCATE TABLE exported');
  const names = files.map(({ name }) => name);
  await insertFiles(engine.access, folder, names, 'exported');
  const stored = `events WHERE log_offset < ${nextOffset}`;
  const [row] = await engine.store.query(
    `SELECT (SELECT count() FROM (SELECT * FROM ${stored} EXCEPT SELECT * FROM exported)) AS missing,
            (SELECT count() FROM (SELECT * FROM exported EXCEPT SELECT * FROM ${stored})) AS more,
            (SELECT count() FROM exported) - (SELECT count() FROM ${stored}) AS twice,
            (SELECT count() FROM exported) AS rows`,
  );
  const rows = files.reduce((sum, file) => sum + file.rows, 0);
  expect(row).toEqual({ missing: '0', more: '0', twice: '0', rows: String(rows) });
}

test('before the projected offsets are published, the command fails and writes no manifest', async () => {
  const { output, folderOf } = outputFolder();
  const server = await serveExports(engine.store, PROJECT);
  expect(await questlogCommand(argumentsFor('events', output), { env: server })).toMatchObject({
    ...{ code: 1, stdout: '' },
    stderr: expect.stringContaining(
      `${ROWS} rows are missing until the projector publishes the offset of their partition`,
    ),
  });
  expect(filesIn(folderOf('events'))).toEqual([]);
});

test('an export that is killed several times, and continued, has exactly the rows below the projected offset', {
  timeout: 60_000,
}, async () => {
  const { output, folderOf } = outputFolder();
  const folder = folderOf('events');
  await publish('events', 3_000);
  let kill: { readonly at: number; readonly when: 'start' | 'end'; run(): Promise<void> } | undefined;
  let requests = 0;
  const server = await serveExports(engine.store, PROJECT, async (ctx, next) => {
    requests += 1;
    if (requests === kill?.at && kill.when === 'start') await kill.run();
    if (requests === kill?.at && kill.when === 'end') ctx.res.once('finish', kill.run);
    await next();
  });
  for (const [at, when] of [
    [1, 'start'],
    [2, 'end'],
    [3, 'end'],
  ] as const) {
    requests = 0;
    const { child, ended } = running(argumentsFor('events', output), server);
    const second = Promise.withResolvers<unknown>();
    const run = async () => {
      second.resolve(await openLocalFolder(folder).catch((error: unknown) => error));
      child.kill('SIGKILL');
    };
    kill = { at, when, run };
    expect(await ended()).toBeNull();
    expect(await second.promise).toMatchObject({ message: expect.stringContaining('already exports') });
  }
  kill = undefined;
  const before = filesIn(folder).filter((name) => name.endsWith('.parquet'));
  expect(before.length).toBeGreaterThan(1);
  // An unfinished export ignores new rows, because its plan has the offsets of its start.
  await publish('events', 3_500);
  const modified = () => before.map((name) => statSync(join(folder, name)).mtimeMs);
  const times = modified();
  await exportTo(folder, server);
  // The facts of the last file are missing if the command was killed before it wrote them.
  expect(modified().filter((time, n) => time !== times[n]).length).toBeLessThanOrEqual(1);
  await expectAllRows(folder, 3_000);

  await exportTo(folder, server);
  await expectAllRows(folder, 3_500);

  await erase('log_offset = 7 AND log_partition = 1');
  const { written } = await exportTo(folder, server, { isRefresh: true });
  expect(written).toMatchObject([{ generation: 2, name: expect.stringMatching(/-2\.parquet$/) }]);
  await expectAllRows(folder, 3_500);
});

/** Returns the settings of a server that rejects all requests after the first `count` requests. */
async function servedUntil(count: number): Promise<Readonly<Record<string, string>>> {
  let requests = 0;
  return await serveExports(engine.store, PROJECT, async (_, next) => {
    requests += 1;
    if (requests > count) throw new Rejected('not_found', 'the export ends here');
    await next();
  });
}

const erase = (condition: string) =>
  engine.store.command(`ALTER TABLE events DELETE WHERE ${condition} SETTINGS mutations_sync = 2`);

test('an interrupted export or refresh that continues has the rows after an erasure', async () => {
  await publish('events', 500, 2);
  const server = await serveExports(engine.store, PROJECT);
  const folder = outputFolder().folderOf('events');
  await expect(exportTo(folder, await servedUntil(4))).rejects.toThrow('the export ends here');
  await erase('log_offset = 8 AND log_partition IN (0, 1)');
  await exportTo(folder, server);
  await expectAllRows(folder, 500);

  await erase('log_offset = 9');
  await expect(exportTo(folder, await servedUntil(3), { isRefresh: true })).rejects.toThrow(
    'the export ends here',
  );
  await exportTo(folder, server);
  await expectAllRows(folder, 500);
});

async function truncate(): Promise<void> {
  await engine.store.command(
    `INSERT INTO projected_offset_versions
       (log_id, topic, partition, table_name, table_uuid, generation, next_offset, truncated_log_id, truncated_from)
     SELECT generateUUIDv4(), topic, partition, table_name, table_uuid, generation, 510, log_id, 499
     FROM projected_offset_versions FINAL WHERE topic = '${PROJECTED.events.topic}' AND partition = 0 AND truncated_log_id IS NULL`,
  );
  onTestFinished(() =>
    engine.store.command(
      'ALTER TABLE projected_offset_versions DELETE WHERE truncated_log_id IS NOT NULL SETTINGS mutations_sync = 2',
    ),
  );
}

/** Replaces `events` by a table with another UUID and few rows, as a restore from a backup does. */
async function restoreTables(): Promise<void> {
  await engine.store.command('CREATE TABLE restored AS events');
  await engine.store.command('INSERT INTO restored SELECT * FROM events WHERE log_offset < 100');
  await engine.store.command('EXCHANGE TABLES events AND restored');
  onTestFinished(async () => {
    await engine.store.command('EXCHANGE TABLES events AND restored');
    await engine.store.command('DROP TABLE restored');
  });
}

const catchUp = async () => {
  await restoreTables();
  await publish('events', 600, 4);
};

test.each([
  ['a truncation', truncate, 'the log has lost records'],
  ['a restore', restoreTables, 'has no projected offset'],
  ['a restore, and after the projector has caught up', catchUp, 'the tables were restored'],
])('after %s, an export that continues changes no files', async (_, change, message) => {
  await publish('events', 500, 3);
  const server = await serveExports(engine.store, PROJECT);
  const [complete, unfinished] = [outputFolder().folderOf('events'), outputFolder().folderOf('events')];
  await exportTo(complete, server);
  await expect(exportTo(unfinished, await servedUntil(3))).rejects.toThrow('the export ends here');
  await change();
  for (const folder of [complete, unfinished]) {
    const data = filesIn(folder).filter((name) => name !== 'plan.json');
    const contents = () => data.map((name) => hash('sha256', readFileSync(join(folder, name))));
    const before = contents();
    await expect(exportTo(folder, server)).rejects.toThrow(message);
    await expect(exportTo(folder, server, { isRefresh: true })).rejects.toThrow(message);
    expect(filesIn(folder).filter((name) => name !== 'plan.json')).toEqual(data);
    expect(contents()).toEqual(before);
  }
});

const { path: disk, lacking, fill } = smallDisk(2 * 1024 * 1024);
if (lacking !== undefined) console.warn(`skipped: ${lacking}`);

test.skipIf(lacking !== undefined)(
  'a full disk leaves no manifest, and the export continues afterwards',
  async () => {
    await publish('events', 1_000, 5);
    const server = await serveExports(engine.store, PROJECT);
    const folder = join(disk, 'events', id);
    const ballast = fill({ leaveBytes: 300_000 });
    await expect(exportTo(folder, server)).rejects.toThrow(
      'was not written: ENOSPC: no space left on device',
    );
    expect(filesIn(folder)).not.toContain('manifest.json');
    rmSync(ballast);
    await exportTo(folder, server);
    await expectAllRows(folder, 1_000);
  },
);

/** Number of killed commands. `QUESTLOG_TEST_RUNS=long npm test -- test/exports` kills 50 commands. */
const KILLS = process.env['QUESTLOG_TEST_RUNS'] === 'long' ? 50 : 4;
const SEED = Number(process.env['QUESTLOG_SEED'] ?? Date.now());

test(`after kills at random times (QUESTLOG_SEED=${SEED}), the files have exactly the rows of ClickHouse`, {
  timeout: 30_000 * KILLS,
}, async () => {
  const random = new SeededRandom(SEED);
  let killAt: (() => void) | undefined;
  let kills = 0;
  const server = await serveExports(engine.store, PROJECT, async (ctx, next) => {
    ctx.res.once('finish', () => killAt?.());
    await next();
  });
  const nextOffset = ROWS / PARTITIONS;
  await publish('events', nextOffset, 6);
  while (kills < KILLS) {
    const { output, folderOf } = outputFolder();
    const folder = folderOf('events');
    for (const options of [[], ['--refresh']]) {
      // Files of the first export contain an event that the refresh removes.
      if (options.length > 0) await erase(`log_offset = ${random.integer(0, nextOffset - 1)}`);
      for (let n = random.integer(1, 3); n > 0; n--) {
        const { child, ended } = running([...argumentsFor('events', output), ...options], server);
        let remaining = random.integer(0, 9);
        const delayMs = random.integer(0, 29);
        killAt = () => {
          if (remaining-- === 0) setTimeout(() => child.kill('SIGKILL'), delayMs);
        };
        if ((await ended()) === null) kills += 1;
      }
      killAt = undefined;
      await exportTo(folder, server, { isRefresh: options.length > 0 });
      await expectAllRows(folder, nextOffset);
    }
  }
});

test('exports the newest version of each report except reports of an earlier log, and the links that are not pending', async () => {
  const { output, folderOf } = outputFolder();
  const [kept, retracted, event] = [randomUUID(), randomUUID(), randomUUID()];
  const at = '2026-11-02 12:00:00';
  const report = (reportId: string, version: number, offset: number, log = logId) =>
    `('${tenantId}', '${id}', '${reportId}', '${at}', ${version}, '${log}', 0, ${offset})`;
  const link = (state: string, version: number, offset: number) =>
    `('${tenantId}', '${id}', '${kept}', '${event}', '${state}', 'named', ${version}, '${at}', '${logId}', 0, ${offset})`;
  const place = 'log_id, log_partition, log_offset';
  const ofEarlierLog = report(randomUUID(), 0, 1, randomUUID());
  const both = `${report(kept, 0, 1)}, ${report(retracted, 0, 2)}`;
  for (const values of [both, report(retracted, 1, 2), ofEarlierLog])
    await engine.store.command(
      `INSERT INTO report_versions (tenant_id, project_id, id, received_at, version, ${place}) VALUES ${values}`,
    );
  for (const values of [link('pending', 0, 1), link('linked', 2, 5)])
    await engine.store.command(
      `INSERT INTO report_link_versions (tenant_id, project_id, report_id, event_id, state, source, version, changed_at, ${place})
       VALUES ${values}`,
    );
  await publish('reports', 10);
  await publish('links', 10);
  const server = await serveExports(engine.store, PROJECT);
  await exportTo(folderOf('links'), server, { kind: 'links', format: 'csv' });
  const more = ['--format', 'ndjson', '--from', '2026-11-02', '--project', id.toUpperCase()];
  expect(await questlogCommand(argumentsFor('reports', output, ...more), { env: server })).toMatchObject({
    ...{ code: 0, stdout: `${folderOf('reports')}\n` },
    stderr: expect.stringMatching(/^1 rows of an earlier log are missing, .*\n2 rows in 1 files, 1 MiB\n$/),
  });
  const textOf = (kind: Projected) =>
    readFileSync(join(folderOf(kind), manifestIn(folderOf(kind)).files[0]?.name ?? ''), 'utf8');
  const reports = textOf('reports')
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line));
  expect(reports.map((row) => [row.id, row.version, row.received_at]).sort()).toEqual(
    [
      [kept, 0, '2026-11-02T12:00:00.000Z'],
      [retracted, 1, '2026-11-02T12:00:00.000Z'],
    ].sort(),
  );
  expect(reports[0]).not.toHaveProperty('filed_by');
  expect(textOf('links')).toMatch(
    new RegExp(`^"tenant_id",.*\\n"${tenantId}",.*"${event}","linked","named",2,.*\\n$`),
  );
});
