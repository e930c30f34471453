/**
 * `npm run bench:erasure`: measures the erasure of a project with a million events among twenty million events, on the embedded
 * ClickHouse. Fails if the receipt does not count all events, or if events of the other project changed.
 */
import { randomUUID } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { openErasures } from '@questlog/ingest/erasures/erasures';
import { runErasures } from '@questlog/ingest/erasures/runErasures';
import { startEmbeddedClickHouse } from '@questlog/runtime/clickhouse/chdb/embeddedClickHouse';
import { openMigrated } from '@questlog/runtime/clickhouse/migrate';
import type { Store } from '@questlog/runtime/clickhouse/store';
import { emptyDirectory } from '@questlog/runtime/directory/directory';
import type { DirectoryHandle } from '@questlog/runtime/directory/openDirectory';
import { systemClock } from '@questlog/runtime/process/clock';
import { createLogger } from '@questlog/runtime/process/logger';
import type { ErasureOutput } from '@questlog/schemas/http/erasure';
import type { Erasure } from '@questlog/schemas/topics/directoryEntry';
import { eventually } from '../../e2e/builders.ts';
import { EVENTS_A_SESSION, fillMonth, OWNER } from '../dataGuide/fillMonth.ts';
import { page } from '../figuresPage.ts';
import { sampleMemory } from '../processFigures.ts';

const MIGRATIONS = fileURLToPath(new URL('../../../deploy/clickhouse', import.meta.url));
const ACCESS = { username: 'bench', password: 'bench', database: 'questlog' };
/** Sessions of one insert, limited by the memory of the engine. */
const SESSIONS_AT_ONCE = 2_500;
const DONE_WITHIN_MS = 900_000;
const GIB = 1024 ** 3;

const { values } = parseArgs({
  options: {
    events: { type: 'string', default: '20000000' },
    erased: { type: 'string', default: '1000000' },
  },
});
const [EVENTS, ERASED] = [Number(values.events), Number(values.erased)];
const GONE = randomUUID();
const say = (line: string): void => void process.stdout.write(`${line}\n`);

const folder = mkdtempSync(join(tmpdir(), 'questlog-bench-erasure-'));
const server = await startEmbeddedClickHouse({ directory: folder, ...ACCESS });
const store = await openMigrated({ url: server.url, ...ACCESS }, MIGRATIONS);
try {
  await fillMonth(store, EVENTS - ERASED, say);
  await copyProject(store);
  await eventually(
    () => countOf(store, 'SELECT count() AS n FROM system.merges'),
    (merges) => merges === 0,
    DONE_WITHIN_MS,
  );
  const kept = await sumOf(store);
  const memory = sampleMemory(process.pid);
  const beforeBytes = memory.highestSinceAsked();
  const { receipt } = await erased(store);
  const peakBytes = memory.highestSinceAsked();
  memory.stop();
  const { asked, found, hiddenAt, goneFromDiskAt } = receipt;
  if (found.events !== ERASED) throw new Error(`the receipt is wrong: ${JSON.stringify(receipt)}`);
  if ((await sumOf(store)) !== kept) throw new Error('events of the other project are not as they were');
  const seconds = (until: string | null) =>
    ((Date.parse(until ?? '') - Date.parse(asked.at)) / 1_000).toFixed(0);
  const report = page([
    '',
    `| ${ERASED.toLocaleString('en-US')} events of a project, each in a record of its own, among ${EVENTS.toLocaleString('en-US')}, in ${(await partBytes(store)).toFixed(2)} GiB of one month | |`,
    '| --- | --- |',
    `| hidden, after the request | ${seconds(hiddenAt)} s |`,
    `| gone from disk, after the request | ${seconds(goneFromDiskAt)} s |`,
    `| memory of the process with the engine: before, at most | ${(beforeBytes / GIB).toFixed(2)} GiB, ${(peakBytes / GIB).toFixed(2)} GiB |`,
  ]);
  say(`\n${report}`);
} finally {
  await store.close();
  await server.close();
  rmSync(folder, { recursive: true, force: true });
}

/**
 * Copies the project to another project of the tenant, so that the rows of both are in the same parts. Each event has its own
 * record.
 */
async function copyProject(of: Store): Promise<void> {
  for (let from = 0; from < ERASED / EVENTS_A_SESSION; from += SESSIONS_AT_ONCE) {
    const until = Math.min(from + SESSIONS_AT_ONCE, ERASED / EVENTS_A_SESSION);
    const rows = `WHERE project_id = '${OWNER.project}' AND log_offset >= ${from} AND log_offset < ${until}`;
    const placed = { events: `, log_offset * ${EVENTS_A_SESSION} + log_index AS log_offset`, sessions: '' };
    for (const [table, place] of Object.entries(placed)) {
      await of.command(
        `INSERT INTO ${table} SELECT * REPLACE (toUUID('${GONE}') AS project_id${place})
         FROM (SELECT * FROM ${table} ${rows})`,
      );
    }
  }
}

/** Erases the project with the product's own steps, an in-memory directory, and no unprojected records. */
async function erased(of: Store): Promise<ErasureOutput> {
  const current = emptyDirectory();
  const { tenant: tenantId } = OWNER;
  current.tenants.set(tenantId, { id: tenantId } as never);
  current.projects.set(GONE, { id: GONE, tenantId, createdAt: Date.now() } as never);
  const change = async (_: string, id: string, decide: (known: unknown) => Decided): Promise<unknown> => {
    const { entity, answer } = decide(current.erasures.get(id));
    if (entity !== undefined) current.erasures.set(id, entity);
    return answer;
  };
  const directory = { current, change, caughtUp: async () => {} } as unknown as DirectoryHandle;
  const shared = { directory, store: of, clock: systemClock };
  // An erasure of a project does not use the registrations.
  const players = { sessionsOf: async () => [], unresolved: async () => null };
  const runs = runErasures({
    ...{ ...shared, players, uploads: undefined, projections: [], logger: createLogger('bench') },
    deadLetters: { discardErased: async () => 0 },
  });
  const written = { caughtUp: async () => {} };
  const log = { retention: async () => ({ retentionMs: 0, deletedAfterMs: 0 }) };
  const erasures = openErasures({ ...shared, players, reportProjection: written, log, maxErasedIds: 0 }, () =>
    runs.notify(),
  );
  const { id } = await erasures.request({ tenantId, projectId: GONE });
  const isOver = ({ state }: ErasureOutput): boolean => state === 'done' || state === 'failed';
  const erasure = await eventually(async () => erasures.find(id), isOver, DONE_WITHIN_MS);
  await runs.close();
  return erasure;
}

interface Decided {
  readonly entity?: Erasure;
  readonly answer: unknown;
}

async function sumOf(of: Store): Promise<string> {
  const [row] = await of.query<{ sum: string }>(
    `SELECT concat(toString(count()), ' ', toString(sum(cityHash64(id, payload)))) AS sum FROM events
     WHERE project_id = '${OWNER.project}'`,
  );
  return row?.sum ?? '';
}

async function partBytes(of: Store): Promise<number> {
  const sql = `SELECT sum(bytes_on_disk) AS n FROM system.parts WHERE active AND table = 'events'`;
  return (await countOf(of, sql)) / GIB;
}

async function countOf(of: Store, sql: string): Promise<number> {
  const [row] = await of.query<{ n: string }>(sql);
  return Number(row?.n ?? 0);
}
