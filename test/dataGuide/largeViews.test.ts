/** Tests that the views with a join stay within a reader's memory, with five million events of two million sessions. */
import { randomUUID } from 'node:crypto';
import { aClickHouse, type TestServer } from '@questlog/runtime/clickhouse/chdb/testing/aClickHouse';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { fillProject, type LargeProject } from './largeProject.ts';

const EVENTS = 5_000_000;
const tenant = randomUUID();
const large: LargeProject = { tenant, project: randomUUID(), events: EVENTS, sessions: 2_000_000 };

let clickhouse: TestServer;
beforeAll(async () => {
  clickhouse = await aClickHouse({ hasTables: true });
  await fillProject(clickhouse, large);
});
afterAll(() => clickhouse[Symbol.asyncDispose]());

describe('five million events of two million sessions', () => {
  const { project } = large;
  const where = `WHERE tenant_id = '${tenant}' AND project_id = '${project}'`;
  const day = `${where} AND received_at >= '2026-10-10' AND received_at < '2026-10-11'`;

  test.each([
    ['one row of game_events', `SELECT * FROM game_events ${where} LIMIT 1`, 1],
    ['a rare type', `SELECT * FROM game_events ${where} AND event_type = 'crash' LIMIT 1000`, 1_000],
    ['the newest', `SELECT * FROM game_events ${where} ORDER BY received_at DESC LIMIT 10`, 10],
    ['platforms', `SELECT platform, count() FROM game_events ${where} GROUP BY platform`, 5],
    [
      'types of a day',
      `SELECT event_type, sum(length(payload)) FROM game_events ${day} GROUP BY event_type`,
      5,
    ],
    ['one row of events_with_reports', `SELECT * FROM events_with_reports ${where} LIMIT 1`, 1],
    [
      'linked events',
      `SELECT length(report_ids) AS n, count() FROM events_with_reports ${where} GROUP BY n`,
      2,
    ],
  ])('%s', async (_, sql, rows) => {
    const lines = await clickhouse.askAsReader(sql);
    expect(lines.trimEnd().split('\n')).toHaveLength(rows);
  });

  test('every event has its player', async () => {
    const sql = `SELECT count(), countIf(player_external_id IS NULL), uniq(session_id) > 0 FROM game_events ${where}`;
    // Not as a reader, because a busy machine can take more than the 30 s of a reader.
    expect(await clickhouse.ask(sql)).toBe(`${EVENTS}\t0\t1\n`);
  });
});
