/**
 * Tests the exports that operations writes to a bucket: two processes, a process that stops, a schedule, and erasures. The bucket is
 * in memory, and the directory and the rows are in the real engines.
 */
import { randomUUID } from 'node:crypto';
import { buffer } from 'node:stream/consumers';
import { erasedExports } from '@questlog/operations/exports/erasedExports';
import { runExports } from '@questlog/operations/exports/runExports';
import { emptyTables, type SharedEngine } from '@questlog/runtime/clickhouse/chdb/testing/sharedEngine';
import type { DirectoryHandle } from '@questlog/runtime/directory/openDirectory';
import { anEmptyTopic, aTenant, opened } from '@questlog/runtime/directory/testing/directoryBuilders';
import type { ExportFolder, FileFacts } from '@questlog/runtime/exports/exportFolder';
import { silentLogger } from '@questlog/runtime/process/logger';
import { anErasure } from '@questlog/schemas/fixtures/builders';
import { PROJECTED } from '@questlog/schemas/tables/projected';
import type { Export } from '@questlog/schemas/topics/directoryEntry';
import { beforeAll, expect, onTestFinished, test } from 'vitest';

const [tenantId, id, logId] = [randomUUID(), randomUUID(), randomUUID()];
const PROJECT = { tenantId, id, name: 'a game', revision: null, createdAt: 0 };
const PATH = `s3://bucket/games/events/${id}`;
const CHUNKS = 6;
const HOUR_MS = 3_600_000;
/** Much longer than the time between two renewals on a machine under load. */
const LEASE_MS = 1_000;

let engine: SharedEngine;

beforeAll(async () => {
  engine = await emptyTables();
  await insertEvents(0, CHUNKS);
});

/** Inserts one event for each of several days. The rows of different days are in different files. */
async function insertEvents(first: number, count: number): Promise<void> {
  await engine.store.command(
    `INSERT INTO events (tenant_id, project_id, log_id, log_partition, id, event_type, occurred_at, received_at, id_at, payload,
       log_offset, log_index)
     WITH toDateTime64('2026-11-01', 3, 'UTC') + INTERVAL number DAY AS at
     SELECT '${tenantId}', '${id}', '${logId}', 0, generateUUIDv7(), 'kill', at, at, at, '{}', number, 1
     FROM numbers(${first}, ${count})`,
  );
  await publishOffset(first + count);
}

async function publishOffset(nextOffset: number): Promise<void> {
  const { topic, table } = PROJECTED.events;
  await engine.store.command(
    `INSERT INTO projected_offset_versions (log_id, topic, partition, table_name, table_uuid, generation, next_offset)
     SELECT '${logId}', '${topic}', 0, name, uuid, 1, ${nextOffset} FROM system.tables
     WHERE database = currentDatabase() AND name = '${table}'`,
  );
}

interface StoredFile {
  readonly content: string;
  readonly facts?: FileFacts;
}

class MemoryBucket {
  readonly files = new Map<string, StoredFile>();
  /** Names of all stored files, in the order of the writes. */
  readonly stored: string[] = [];
  isAvailable = true;
  /** Called before a file is stored. */
  onStore: (name: string) => Promise<void> = async () => {};

  open = async (path: string, beforeChange: () => Promise<void>): Promise<ExportFolder> => {
    if (!this.isAvailable) throw new Error('the bucket is away');
    const remove = async (name: string) => {
      await beforeChange();
      this.files.delete(name);
    };
    return {
      ...{ path, remove, finish: remove, close: async () => {} },
      isEmpty: async () => this.files.size === 0,
      read: async (name) => this.files.get(name)?.content,
      find: async (name) => this.files.get(name)?.facts,
      write: async (name, content) => {
        await beforeChange();
        this.files.set(name, { content });
      },
      store: async (name, measured, { rows, state }) => {
        const content = (await buffer(measured.stream)).toString();
        const facts = { rows, state, ...measured.measured() };
        await this.onStore(name);
        await beforeChange();
        this.files.set(name, { content, facts });
        this.stored.push(name);
        return facts;
      },
    };
  };

  /** Returns the offsets of the rows in the files of the manifest. Expects that the bucket has no other files. */
  offsets(): number[] {
    const { files }: { files: { name: string }[] } = JSON.parse(
      this.files.get('manifest.json')?.content ?? '',
    );
    const names = files.map(({ name }) => name);
    expect([...this.files.keys()].sort()).toEqual([...names, 'manifest.json'].sort());
    const rows = names.flatMap((name) => (this.files.get(name)?.content ?? '').split('\n').filter(Boolean));
    return rows.map((row) => Number(JSON.parse(row).log_offset)).sort((a, b) => a - b);
  }
}

async function processes(count: number) {
  const topic = await anEmptyTopic();
  const directories = await Promise.all(Array.from({ length: count }, () => opened(topic)));
  const [first] = directories as [DirectoryHandle, ...DirectoryHandle[]];
  await first.put('tenant', tenantId, aTenant(tenantId));
  await first.put('project', id, PROJECT);
  const bucket = new MemoryBucket();
  const clock = { nowMs: Date.UTC(2026, 10, 21), now: () => clock.nowMs };
  const run = (directory: Pick<DirectoryHandle, 'current' | 'change'>) => {
    const stop = runExports({
      ...{ directory, store: engine.store, clock, logger: silentLogger, openFolder: bucket.open },
      ...{ leaseMs: LEASE_MS, pollMs: 20 },
    });
    onTestFinished(stop);
    return stop;
  };
  const create = async (everyHours: number | null = null): Promise<string> => {
    const now = clock.nowMs;
    const job: Export = {
      ...{ id: randomUUID(), projectId: id, kind: 'events', format: 'ndjson', from: null, to: null },
      ...{ path: PATH, everyHours, createdAt: now, state: 'queued', problem: null, runId: null, dueAt: now },
      ...{ finishedAt: null, files: 0, rows: 0, bytes: 0 },
    };
    await first.put('export', job.id, job);
    return job.id;
  };
  const stateOf = (jobId: string): Export | undefined => first.current.exports.get(jobId);
  const ended = async (jobId: string, expected: object = { state: 'done' }) =>
    await expect.poll(() => stateOf(jobId), { timeout: 10_000 }).toMatchObject(expected);
  return { directories, first, bucket, clock, run, create, ended };
}

const allOffsets = (count = CHUNKS) => Array.from({ length: count }, (_, n) => n);

test('of several processes, one runs an export, and writes each file once', async () => {
  const { directories, bucket, run, create, ended } = await processes(3);
  for (const directory of directories) run(directory);
  const jobId = await create();
  await ended(jobId, {
    state: 'done',
    files: CHUNKS,
    rows: CHUNKS,
    dueAt: null,
    runId: null,
    problem: null,
    progress: null,
  });
  expect(bucket.offsets()).toEqual(allOffsets());
  expect(bucket.stored).toHaveLength(CHUNKS);
});

test('an export waits until the projector has published the offset of its rows again', async () => {
  const { first, bucket, clock, run, create, ended } = await processes(1);
  await engine.store.command('TRUNCATE TABLE projected_offset_versions');
  const jobId = await create();
  run(first);
  await ended(jobId, {
    state: 'queued',
    problem: `${CHUNKS} rows are missing until the projector publishes the offset of their partition`,
  });
  await publishOffset(CHUNKS);
  clock.nowMs += HOUR_MS;
  await ended(jobId, { state: 'done', rows: CHUNKS, problem: null });
  expect(bucket.offsets()).toEqual(allOffsets());
});

test('after an erasure, an export rewrites the files that it read while the erasure was hiding rows', async () => {
  const { first, bucket, clock, run, create, ended } = await processes(1);
  const erasure = anErasure({ tenantId, projectId: id, requestedAt: clock.nowMs, hiddenAt: null });
  await first.put('erasure', erasure.id, erasure);
  const jobId = await create();
  run(first);
  await ended(jobId);
  expect(bucket.stored).toHaveLength(CHUNKS);
  await first.put('erasure', erasure.id, { ...erasure, hiddenAt: clock.nowMs });
  const receipt = () => erasedExports(first.current, first.current.erasures.get(erasure.id) ?? erasure);
  await expect.poll(receipt, { timeout: 10_000 }).toMatchObject([{ id: jobId, rewritten: CHUNKS }]);
  expect(bucket.offsets()).toEqual(allOffsets());
});

test('another process continues the export of a process that has stopped, and the stopped process writes nothing more', async () => {
  const { directories, bucket, run, create, ended } = await processes(2);
  const [first, second] = directories as [DirectoryHandle, DirectoryHandle];
  const [paused, resumed] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  let isPaused = false;
  bucket.onStore = async () => {
    if (isPaused || bucket.stored.length < 2) return;
    isPaused = true;
    paused.resolve();
    await resumed.promise;
  };
  // A paused process sends no renewals.
  const change: DirectoryHandle['change'] = async (...of) => {
    if (isPaused) await resumed.promise;
    return await first.change(...of);
  };
  run({ current: first.current, change });
  const jobId = await create();
  await paused.promise;
  await ended(jobId, { state: 'running', progress: { allRows: CHUNKS } });
  run(second);
  await ended(jobId);
  expect(bucket.offsets()).toEqual(allOffsets());
  // The second process has not written the two complete files again.
  expect(bucket.stored).toHaveLength(CHUNKS);
  resumed.resolve();
  await first.caughtUp();
  await ended(jobId, { state: 'done', problem: null });
  expect(bucket.stored).toHaveLength(CHUNKS);
});

test('a scheduled export adds the new rows when its time comes', async () => {
  const { first, bucket, clock, run, create, ended } = await processes(1);
  run(first);
  const start = clock.nowMs;
  const jobId = await create(24);
  await ended(jobId, { state: 'done', rows: CHUNKS, dueAt: start + 24 * HOUR_MS });
  await insertEvents(CHUNKS, 1);
  clock.nowMs = start + 50 * HOUR_MS;
  await ended(jobId, { state: 'done', rows: CHUNKS + 1, dueAt: start + 72 * HOUR_MS });
  expect(bucket.offsets()).toEqual(allOffsets(CHUNKS + 1));
});

test('after an erasure, an export rewrites the affected files, and the receipt lists them', async () => {
  const { first, bucket, clock, run, create, ended } = await processes(1);
  run(first);
  const jobId = await create();
  await ended(jobId);
  const before = bucket.offsets();
  bucket.isAvailable = false;
  await engine.store.command('ALTER TABLE events DELETE WHERE log_offset = 3 SETTINGS mutations_sync = 2');
  const erasure = anErasure({
    tenantId,
    projectId: id,
    sessions: [],
    hiddenAt: clock.now() + 1,
    state: 'done',
  });
  const others = [
    anErasure({ tenantId, projectId: randomUUID(), sessions: [], hiddenAt: clock.now() + 1 }),
    anErasure({ tenantId, projectId: id, sessions: [], hiddenAt: null }),
  ];
  for (const one of [erasure, ...others]) await first.put('erasure', one.id, one);
  const receipt = () => erasedExports(first.current, first.current.erasures.get(erasure.id) ?? erasure);
  // The receipt names the files that the export cannot rewrite.
  await ended(jobId, { state: 'queued', problem: 'the bucket is away' });
  expect(receipt()).toEqual([
    expect.objectContaining({
      id: jobId,
      path: PATH,
      comparedAt: null,
      problem: 'the bucket is away',
      names: [],
    }),
  ]);
  bucket.isAvailable = true;
  clock.nowMs += HOUR_MS;
  await ended(jobId);
  expect(bucket.offsets()).toEqual(before.filter((offset) => offset !== 3));
  expect(receipt()).toEqual([
    expect.objectContaining({
      ...{
        id: jobId,
        path: PATH,
        problem: null,
        rewritten: 1,
        comparedAt: new Date(clock.nowMs).toISOString(),
      },
      names: [expect.stringMatching(/^2026-11-04\/.*-3-3-2\.ndjson$/)],
    }),
  ]);
  for (const { id: other } of others) expect(first.current.erasures.get(other)?.exports).toEqual([]);
});

test('the first run in a folder of a deleted export rewrites the files with erased rows', async () => {
  const { first, bucket, clock, run, create, ended } = await processes(1);
  run(first);
  const deleted = await create();
  await ended(deleted);
  const before = bucket.offsets();
  await first.put('export', deleted, null);
  await engine.store.command('ALTER TABLE events DELETE WHERE log_offset = 2 SETTINGS mutations_sync = 2');
  const erasure = anErasure({ tenantId, projectId: id, sessions: [], hiddenAt: clock.now(), state: 'done' });
  await first.put('erasure', erasure.id, erasure);
  clock.nowMs += 2 * HOUR_MS;
  await ended(await create());
  expect(bucket.offsets()).toEqual(before.filter((offset) => offset !== 2));
});

test('an erasure with many ids gets no file names, because its record must stay below 1 MiB', async () => {
  const { first, clock, run, create, ended } = await processes(1);
  const ids = Array.from({ length: 25_000 }, () => randomUUID());
  const erasure = anErasure({
    ...{
      tenantId,
      projectId: id,
      sessions: [{ projectId: id, ids }],
      hiddenAt: clock.now() + 1,
      state: 'done',
    },
  });
  run(first);
  const jobId = await create();
  await ended(jobId);
  await engine.store.command('ALTER TABLE events DELETE WHERE log_offset = 4 SETTINGS mutations_sync = 2');
  await first.put('erasure', erasure.id, erasure);
  await expect
    .poll(() => first.current.erasures.get(erasure.id)?.exports, { timeout: 10_000 })
    .toEqual([expect.objectContaining({ exportId: jobId, rewritten: 1, names: [] })]);
});
