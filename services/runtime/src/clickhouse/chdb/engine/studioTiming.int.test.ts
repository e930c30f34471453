/**
 * Tests that the duration of a query does not reveal whether another studio has rows. A test runs the same query with and without
 * the other studio's rows, and compares the median durations. The runs alternate, so that other load on the machine affects both
 * medians.
 */
import { hash } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { STUDIO_RULES } from '../../studioTables.ts';
import { aClickHouse, auth, type TestServer } from '../testing/aClickHouse.ts';

const [OWN, OTHER] = ['aaaaaaaa-0000-4000-8000-000000000001', 'bbbbbbbb-0000-4000-8000-000000000002'];
const STUDIO = { username: 'reader-1', password: 'studio' };
const [OWN_ROWS, OTHER_ROWS] = [500, 2_000_000];
const [ROUNDS, QUERIES_PER_ROUND] = [10, 4];
/** Maximum ratio of the medians. A query that reads the other studio's rows takes 2.2 to 10 times as long (measured). */
const MAX_RATIO = 1.75;

let it: TestServer;
beforeAll(async () => {
  const account = { ...STUDIO, sha256: hash('sha256', STUDIO.password), tenantId: OWN, projectId: null };
  const studios = new Map([[STUDIO.username, { ...account, expiresAt: null }]]);
  it = await aClickHouse({ hasTables: true, studios });
  for (const table of ['events', 'sessions']) {
    await addRows(table, OTHER, OTHER_ROWS);
    await it.ask(`OPTIMIZE TABLE ${table} FINAL`);
    await it.ask(`SYSTEM STOP MERGES ${table}`);
    await addRows(table, OWN, OWN_ROWS);
  }
});
afterAll(() => it[Symbol.asyncDispose]());

async function addRows(table: string, studio: string, rows: number): Promise<void> {
  const blocks = 'SETTINGS max_insert_block_size = 200000, min_insert_block_size_rows = 200000';
  const columns = `id, tenant_id, project_id, ${table === 'events' ? 'received_at' : 'registered_at'}`;
  await it.ask(
    `INSERT INTO ${table} (${columns}) SELECT generateUUIDv4(number), '${studio}', '${studio}', '2026-11-01' FROM numbers(${rows}) ${blocks}`,
  );
}

async function namesOf(query: string): Promise<string[]> {
  return (await it.ask(query)).split('\n').filter(Boolean);
}

/** Removes the other studio's rows from a table, or adds the rows again. */
const CHANGES = {
  without: async (table: string): Promise<void> => {
    const parts = `SELECT name FROM system.parts WHERE table = '${table}' AND active AND rows > ${OWN_ROWS}`;
    for (const part of await namesOf(parts)) await it.ask(`ALTER TABLE ${table} DETACH PART '${part}'`);
  },
  with: async (table: string): Promise<void> => {
    const parts = `SELECT name FROM system.detached_parts WHERE table = '${table}'`;
    for (const part of await namesOf(parts)) await it.ask(`ALTER TABLE ${table} ATTACH PART '${part}'`);
  },
};

async function msOf(query: string): Promise<number> {
  const beganMs = performance.now();
  // Uses one thread, so that reading the other studio's rows takes longer.
  const response = await fetch(`${it.server.url}/?max_threads=1`, {
    method: 'POST',
    body: query,
    headers: auth(STUDIO),
  });
  expect([response.status, await response.text()]).toEqual([200, expect.any(String)]);
  return performance.now() - beganMs;
}

function medianOf(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[values.length >> 1] ?? 0;
}

test.each([
  ['events', 'SELECT count() FROM events'],
  ['events', "SELECT id FROM events FINAL WHERE payload LIKE '%level%' ORDER BY occurred_at LIMIT 1"],
  ['events', 'SELECT event_type, max(received_at) FROM game_events GROUP BY event_type'],
  ['sessions', 'SELECT count() FROM sessions'],
  ['sessions', 'SELECT max(started_on) FROM game_sessions'],
  ['sessions', `SELECT count() FROM sessions FINAL WHERE project_id = '${OTHER}'`],
])('a query takes equal time with and without the other studio’s rows in %s: %s', async (table, query) => {
  const times = { without: [] as number[], with: [] as number[] };
  for (let round = 0; round < ROUNDS; round++) {
    for (const state of ['without', 'with'] as const) {
      await CHANGES[state](table);
      for (let n = 0; n < QUERIES_PER_ROUND; n++) times[state].push(await msOf(query));
    }
  }
  const [withoutMs, withMs] = [medianOf(times.without), medianOf(times.with)];
  expect(withMs / withoutMs, `${withMs} ms with and ${withoutMs} ms without the rows`).toBeLessThan(
    MAX_RATIO,
  );
});

test('every table with rows of studios is sorted by tenant or has an index by tenant', async () => {
  const tables = Object.keys(STUDIO_RULES).filter((table) =>
    ['project', 'tenant'].includes(STUDIO_RULES[table] ?? ''),
  );
  const excluding = await namesOf(`SELECT name FROM system.tables WHERE database = 'questlog' AND
    (startsWith(sorting_key, 'tenant_id') OR name IN
      (SELECT table FROM system.data_skipping_indices WHERE database = 'questlog' AND expr = 'tenant_id'))`);
  expect(excluding).toEqual(expect.arrayContaining(tables));
});
