/** Tests the migrations on a database of an earlier version that has rows. Tests the resulting schema. */
import { randomUUID } from 'node:crypto';
import { copyFileSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { aClickHouse, type TestServer } from '@questlog/runtime/clickhouse/chdb/testing/aClickHouse';
import { openMigrated } from '@questlog/runtime/clickhouse/migrate';
import { afterAll, beforeAll, expect, test } from 'vitest';

const MIGRATIONS = fileURLToPath(new URL('../../../deploy/clickhouse', import.meta.url));
/** Last migration of the version that did not have builds and players. */
const LAST_BEFORE = '008-longer-deduplication.sql';

const [tenant, project, session, event, build] = Array.from({ length: 5 }, () => randomUUID());
let clickhouse: TestServer;

beforeAll(async () => {
  clickhouse = await aClickHouse();
  const directory = mkdtempSync(join(tmpdir(), 'questlog-migrations-'));
  for (const name of readdirSync(MIGRATIONS).filter((file) => file <= LAST_BEFORE)) {
    copyFileSync(join(MIGRATIONS, name), join(directory, name));
  }
  await migrate(directory);
  rmSync(directory, { recursive: true });
  await clickhouse.ask(
    `INSERT INTO games.sessions (tenant_id, project_id, id, build_id, registered_at, lane, log_id, log_partition, log_offset)
     VALUES ('${tenant}', '${project}', '${session}', '${build}', '2026-11-21 12:00:00', 3, '${randomUUID()}', 0, 7)`,
  );
  await clickhouse.ask(
    `INSERT INTO games.events (id, tenant_id, project_id, session_id, event_type, occurred_at, received_at, payload, log_id)
     VALUES ('${event}', '${tenant}', '${project}', '${session}', 'x', '2026-11-21', '2026-11-21', '{}', '${randomUUID()}')`,
  );
  await migrate(MIGRATIONS);
});

afterAll(() => clickhouse[Symbol.asyncDispose]());

async function migrate(directory: string): Promise<void> {
  const { url, username, password } = clickhouse.server;
  const store = await openMigrated({ url, username, password, database: 'games' }, directory);
  await store.close();
}

async function rowOf(sql: string): Promise<unknown> {
  return JSON.parse(await clickhouse.ask(`${sql} FORMAT JSONEachRow`));
}

test('a session of the earlier version has no build, player, or metadata, and keeps its other values', async () => {
  const row = await rowOf(
    `SELECT id, build_id, lane, version, platform, player_external_id, metadata, content_sha256 FROM games.sessions`,
  );
  expect(row).toEqual({
    ...{ id: session, build_id: build, lane: 3, version: null, platform: null, player_external_id: null },
    ...{ metadata: '{}', content_sha256: null },
  });
});

test('lists a build that a session of the earlier version named', async () => {
  expect(await rowOf('SELECT build_id, version, toInt32(sessions) AS sessions FROM games.builds')).toEqual({
    ...{ build_id: build, version: null, sessions: 1 },
  });
  expect(await clickhouse.number('SELECT count() FROM games.players')).toBe(0);
});

test('game_events has every column of events except the log position', async () => {
  const missing = await clickhouse.ask(
    `SELECT name FROM system.columns WHERE database = 'games' AND table = 'events' AND name NOT IN
     (SELECT name FROM system.columns WHERE database = 'games' AND table = 'game_events') ORDER BY name FORMAT TSV`,
  );
  expect(missing.trim().split('\n')).toEqual(['id_at', 'log_id', 'log_index', 'log_offset', 'log_partition']);
});

test('every table, every view, and every column has a comment', async () => {
  const bare = await clickhouse.ask(
    `SELECT table, name FROM system.columns WHERE database = 'games' AND comment = ''
     UNION ALL SELECT name, '' FROM system.tables WHERE database = 'games' AND comment = '' ORDER BY ALL`,
  );
  expect(bare).toBe('');
});

test('the next start completes migrations of a start that was killed before it recorded them', async () => {
  const columns = () =>
    clickhouse.ask(
      `SELECT table, name, type, comment FROM system.columns WHERE database = 'games' ORDER BY table, position FORMAT TSV`,
    );
  const files = 'SELECT uniqExact(name) FROM games.schema_migrations';
  const [before, applied] = [await columns(), await clickhouse.number(files)];
  await clickhouse.ask('TRUNCATE TABLE games.schema_migrations');
  await migrate(MIGRATIONS);
  expect(await columns()).toBe(before);
  expect(await clickhouse.number(files)).toBe(applied);
  expect(await clickhouse.number('SELECT count() FROM games.events')).toBe(1);
});
