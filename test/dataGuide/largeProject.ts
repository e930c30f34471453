/** Generates a project of any size inside ClickHouse, for tests of views with many events or many sessions. */
import type { TestServer } from '@questlog/runtime/clickhouse/chdb/testing/aClickHouse';

export interface LargeProject {
  readonly tenant: string;
  readonly project: string;
  readonly events: number;
  readonly sessions: number;
}

/** Maximum rows of one insert. More rows would not fit into the memory of one query. */
const MAX_ROWS_PER_INSERT = 250_000;

/** Inserts the sessions and events of the project. Every tenth event is linked to a report. */
export async function fillProject(clickhouse: Pick<TestServer, 'ask'>, of: LargeProject): Promise<void> {
  for (const rows of portions(of.sessions)) await clickhouse.ask(sessionsInsert(of, rows));
  for (const rows of portions(of.events)) await clickhouse.ask(eventsInsert(of, rows));
  for (const rows of portions(of.events / 10)) await clickhouse.ask(linksInsert(of, rows));
}

function portions(count: number): string[] {
  return Array.from({ length: Math.ceil(count / MAX_ROWS_PER_INSERT) }, (_, nth) => {
    const from = nth * MAX_ROWS_PER_INSERT;
    return `numbers(${from}, ${Math.min(MAX_ROWS_PER_INSERT, count - from)})`;
  });
}

const SESSION_ID = 'reinterpretAsUUID(sipHash128(toUInt64(session)))';
const AT = "toDateTime64('2026-10-01', 3, 'UTC')";
const A_MONTH_S = 2_592_000;

function ownerOf({ tenant, project }: LargeProject): string {
  return `toUUID('${tenant}') AS tenant_id, toUUID('${project}') AS project_id, tenant_id AS log_id, 0 AS log_partition`;
}

function sessionsInsert(of: LargeProject, rows: string): string {
  return `
    INSERT INTO sessions (tenant_id, project_id, log_id, log_partition, id, build_id, started_at, registered_at, log_offset,
      version, platform, git_commit, channel, player_external_id, player_device_id, metadata)
    WITH number AS session, sipHash64(session) % intDiv(${of.sessions}, 5) AS player,
      ${AT} + INTERVAL intDiv(session * ${A_MONTH_S}, ${of.sessions}) SECOND AS at
    SELECT ${ownerOf(of)}, ${SESSION_ID}, reinterpretAsUUID(sipHash128(session % 15)), at, at, session,
      ['1.4.0', '1.4.1', '1.4.2'][1 + session % 3], ['Android', 'iOS', 'Web', 'Windows', 'Linux'][1 + player % 5],
      'abcdef0123456789', 'prod', concat('player-', toString(player)), concat('model-', toString(player % 1000)),
      '{"currentScene":"Arena","engineVersion":"4.6-stable (official)"}'
    FROM ${rows}`;
}

function eventsInsert(of: LargeProject, rows: string): string {
  return `
    INSERT INTO events (tenant_id, project_id, log_id, log_partition, id, session_id, event_type, occurred_at, received_at,
      id_at, payload, log_offset)
    WITH intDiv(number * ${of.sessions}, ${of.events}) AS session,
      ${AT} + INTERVAL intDiv(number * ${A_MONTH_S}, ${of.events}) SECOND AS at
    SELECT ${ownerOf(of)}, reinterpretAsUUID(sipHash128('event', number)), ${SESSION_ID},
      ['kill', 'checkpoint', 'economy', 'performance', 'crash'][1 + sipHash64(number) % 5], at, at, at,
      concat('{"weapon":"bow","position":[', toString(sipHash64(number, 1) % 1000), ',', toString(sipHash64(number, 2) % 1000),
        '],"note":"', hex(sipHash128(number)), '"}'), number
    FROM ${rows}`;
}

function linksInsert(of: LargeProject, rows: string): string {
  return `
    INSERT INTO report_link_versions (tenant_id, project_id, log_id, log_partition, report_id, event_id, state, source, version,
      changed_at, log_offset)
    SELECT ${ownerOf(of)}, reinterpretAsUUID(sipHash128('report', intDiv(number, 100))),
      reinterpretAsUUID(sipHash128('event', number * 10)), 'linked', 'session', 2, ${AT}, number
    FROM ${rows}`;
}
