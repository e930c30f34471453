/** Tests the views for data teams: joins that spill to disk, and sessions and times of wrong clocks. */
import { randomUUID } from 'node:crypto';
import { aClickHouse, type TestServer } from '@questlog/runtime/clickhouse/chdb/testing/aClickHouse';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { fillProject, type LargeProject } from './largeProject.ts';

/** Has fewer events than sessions, because the planner would build the hash table of a join on the smaller side if it could. */
const project: LargeProject = { tenant: randomUUID(), project: randomUUID(), events: 1_000, sessions: 5_000 };
const OF_PROJECT = `tenant_id = '${project.tenant}' AND project_id = '${project.project}'`;

let clickhouse: TestServer;
beforeAll(async () => {
  clickhouse = await aClickHouse({ hasTables: true });
  await fillProject(clickhouse, project);
  await clickhouse.ask(
    `INSERT INTO report_versions (tenant_id, project_id, id, session_id, fingerprint)
     SELECT tenant_id, project_id, id, id, 'wall' FROM sessions LIMIT 10`,
  );
});
afterAll(() => clickhouse[Symbol.asyncDispose]());

const rowsOf = async (sql: string): Promise<unknown[]> => {
  const lines = await clickhouse.askAsReader(`${sql} FORMAT JSONEachRow`);
  return lines
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line));
};

test.each([
  ['game_events', 'events', 'sessions'],
  ['events_with_reports', 'events', 'report_link_versions'],
  ['report_groups', 'report_versions', 'sessions'],
])('the join of %s with its hash table on the right side can spill: %s, %s', async (view, left, right) => {
  const plan = await clickhouse.askAsReader(`EXPLAIN actions = 1 SELECT * FROM ${view} WHERE ${OF_PROJECT}`);
  expect(plan).toContain('Algorithm: GraceHashJoin');
  expect(plan).toContain('Type: left');
  const read = [...plan.matchAll(/ReadFromMergeTree \(questlog\.(\w+)\)/g)].map(([, table]) => table);
  expect(read).toEqual([left, right]);
});

test('a session’s start is never NULL and at most 90 days before its registration', async () => {
  const other = randomUUID();
  const registered = '2026-11-20 12:00:00';
  const starts = {
    'not sent': null,
    'a minute before': '2026-11-20 11:59:00.123456',
    'five days offline': '2026-11-15 08:00:00',
    '90 days offline': '2026-08-22 12:00:00',
    'longer offline': '2026-08-22 11:59:59.999999',
    '1970': '1970-01-01 00:00:07',
    '1900': '1900-01-01 00:00:00',
    '2062': '2062-11-20 12:00:00',
    '2299': '2299-12-31 23:59:59',
    'a second ahead': '2026-11-20 12:00:01',
  };
  const values = Object.entries(starts).map(
    ([player, startedAt]) =>
      `('${other}', '${other}', generateUUIDv4(), ${startedAt === null ? 'NULL' : `'${startedAt}'`}, '${registered}', '${player}')`,
  );
  await clickhouse.ask(
    `INSERT INTO sessions (tenant_id, project_id, id, started_at, registered_at, player_external_id) VALUES ${values}`,
  );
  const sessions = await rowsOf(
    `SELECT player_external_id AS player, toString(started_at) AS at, toString(started_on) AS day, toTypeName(started_at) AS type
     FROM game_sessions WHERE project_id = '${other}'`,
  );
  const registeredAt = ['2026-11-20 12:00:00.000000', '2026-11-20'];
  const expected: Record<string, string[]> = {
    ...Object.fromEntries(Object.keys(starts).map((player) => [player, registeredAt])),
    'a minute before': ['2026-11-20 11:59:00.123456', '2026-11-20'],
    'five days offline': ['2026-11-15 08:00:00.000000', '2026-11-15'],
    '90 days offline': ['2026-08-22 12:00:00.000000', '2026-08-22'],
  };
  const type = "DateTime64(6, 'UTC')";
  const rows = Object.entries(expected).map(([player, [at, day]]) => ({ player, at, day, type }));
  expect(sessions).toHaveLength(rows.length);
  expect(sessions).toEqual(expect.arrayContaining(rows));
});

test('players.first_played of a player who was offline is before the first registration', async () => {
  const other = randomUUID();
  await clickhouse.ask(
    `INSERT INTO sessions (tenant_id, project_id, id, started_at, registered_at, player_external_id) VALUES
     ('${other}', '${other}', generateUUIDv4(), '2026-11-03 10:00:00', '2026-11-20 12:00:00', 'a'),
     ('${other}', '${other}', generateUUIDv4(), '2026-11-05 10:00:00', '2026-11-20 12:00:00', 'a'),
     ('${other}', '${other}', generateUUIDv4(), '1970-01-01 00:01:00', '2026-11-21 12:00:00', 'a')`,
  );
  expect(
    await rowsOf(
      `SELECT toString(first_played) AS first_played, toString(last_played) AS last_played, toString(first_seen) AS first_seen,
         toString(last_seen) AS last_seen, toUInt8(sessions) AS sessions FROM players WHERE project_id = '${other}'`,
    ),
  ).toEqual([
    {
      first_played: '2026-11-03 10:00:00.000000',
      last_played: '2026-11-21 12:00:00.000000',
      first_seen: '2026-11-20 12:00:00.000',
      last_seen: '2026-11-21 12:00:00.000',
      sessions: 3,
    },
  ]);
});

test.each(['game_events', 'events_with_reports'])(
  '%s has the right day of every time that is accepted',
  async (view) => {
    const other = randomUUID();
    const days = ['1900-01-01', '1969-12-31', '2026-11-20', '2163-05-04', '2299-12-31'];
    const values = days.map(
      (day) =>
        `('${other}', '${other}', generateUUIDv4(), 'x', '${day} 23:59:59', '2026-11-20 12:00:00', '{}')`,
    );
    await clickhouse.ask(
      `INSERT INTO events (tenant_id, project_id, id, event_type, occurred_at, received_at, payload) VALUES ${values}`,
    );
    expect(
      await rowsOf(
        `SELECT toString(occurred_on) AS day FROM ${view} WHERE project_id = '${other}' ORDER BY occurred_at`,
      ),
    ).toEqual(days.map((day) => ({ day })));
  },
);
