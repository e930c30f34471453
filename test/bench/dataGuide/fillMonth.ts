/** Generates a month of a live game inside ClickHouse, with the same kinds of events as the small game of the data guide. */
import type { Store } from '@questlog/runtime/clickhouse/store';

export const MONTH = { from: '2026-10-01', to: '2026-11-01' };
export const OWNER = {
  tenant: '0f0e4b1c-6f7e-4d57-9f0a-3f5a1c9f1a01',
  project: '0f0e4b1c-6f7e-4d57-9f0a-3f5a1c9f1a02',
};
export const EVENTS_A_SESSION = 100;
export const SESSIONS_A_PLAYER = 5;

const MONTH_MS = Date.parse(MONTH.to) - Date.parse(MONTH.from);
/** Rows of one insert. Two concurrent inserts stay below the engine's memory limit. */
const ROWS_AT_ONCE = 250_000;

export async function fillMonth(store: Store, events: number, say: (line: string) => void): Promise<void> {
  const sessions = Math.ceil(events / EVENTS_A_SESSION);
  await store.command(sessionsInsert(sessions));
  const portions = Array.from(
    { length: Math.ceil(events / ROWS_AT_ONCE) },
    (_, nth) => nth * ROWS_AT_ONCE,
  ).values();
  const insertAll = async (): Promise<void> => {
    for (const from of portions) {
      await store.command(eventsInsert({ from, count: Math.min(ROWS_AT_ONCE, events - from), sessions }));
      if ((from / ROWS_AT_ONCE) % 20 === 19) say(`${(from + ROWS_AT_ONCE) / 1e6} million events`);
    }
  };
  await Promise.all([insertAll(), insertAll()]);
}

/** Id of a session, computed from the session's number in the month. */
const SESSION_ID = 'reinterpretAsUUID(sipHash128(toUInt64(session)))';
const BUILD_ID = 'reinterpretAsUUID(sipHash128(of_version, of_platform))';
const PLACE = `toUUID('${OWNER.project}') AS log_id, toUInt32(0) AS log_partition`;

function buildOf(sessions: number): string {
  return `['1.4.0', '1.4.1', '1.4.2'][1 + intDiv(session * 3, ${sessions})] AS of_version,
      ['Android', 'iOS', 'Web', 'Windows', 'Linux'][1 + player % 5] AS of_platform`;
}

function beganMs(sessions: number): string {
  return `toInt64(${Date.parse(MONTH.from)}) + intDiv(session * ${MONTH_MS}, ${sessions})`;
}

function sessionsInsert(sessions: number): string {
  const players = Math.ceil(sessions / SESSIONS_A_PLAYER);
  return `
    INSERT INTO sessions (tenant_id, project_id, id, build_id, registered_at, lane, version, platform, channel,
      player_external_id, metadata, log_id, log_partition, log_offset)
    WITH number AS session, sipHash64(session) % ${players} AS player,
      ${buildOf(sessions)}
    SELECT toUUID('${OWNER.tenant}'), toUUID('${OWNER.project}'), ${SESSION_ID},
      ${BUILD_ID}, fromUnixTimestamp64Milli(${beganMs(sessions)}, 'UTC'), 0,
      of_version, of_platform, 'prod', concat('player-', leftPad(toString(player), 7, '0')),
      concat('{"currentScene":"Arena","engineVersion":"4.6-stable (official)","experiments":{"tutorial":"',
        if(player % 2 = 0, 'A', 'B'), '"}}'),
      ${PLACE}, session
    FROM numbers(${sessions})`;
}

interface Portion {
  readonly from: number;
  readonly count: number;
  readonly sessions: number;
}

/**
 * Returns the insert of events. Each session has a hundred events, 12 s apart; a thousandth of the players kills in half of
 * them.
 */
function eventsInsert({ from, count, sessions }: Portion): string {
  const players = Math.ceil(sessions / SESSIONS_A_PLAYER);
  return `
    INSERT INTO events (tenant_id, project_id, id, session_id, build_id, event_type, occurred_at, received_at, id_at, payload,
      over_quota, log_id, log_partition, log_offset, log_index)
    WITH intDiv(number, ${EVENTS_A_SESSION}) AS session, number % ${EVENTS_A_SESSION} AS nth, sipHash64(number) AS dice,
      sipHash64(session) % ${players} AS player, ${buildOf(sessions)},
      ${beganMs(sessions)} + nth * 12000 + dice % 9000 AS at,
      multiIf(
        nth IN (0, 10, 20, 30) AND sipHash64(session, 1) % 40 >= nth, 'checkpoint',
        nth % 25 = 5, 'match_search',
        nth % 25 = 7 AND dice % 10 > 0, 'match_found',
        nth = 99 AND dice % 50 = 0, 'crash',
        player % 1000 = 7 AND nth % 2 = 1, 'kill',
        nth % 4 = 1, 'performance',
        nth % 5 = 2, 'economy',
        'kill') AS kind
    SELECT toUUID('${OWNER.tenant}'), toUUID('${OWNER.project}'), generateUUIDv7(number), ${SESSION_ID}, ${BUILD_ID}, kind,
      fromUnixTimestamp64Milli(at, 'UTC'), fromUnixTimestamp64Milli(at + 800, 'UTC'),
      fromUnixTimestamp64Milli(at + 800, 'UTC'),
      multiIf(
        kind = 'checkpoint', concat('{"name":"',
          ['tutorial_start', 'tutorial_done', 'first_match', 'first_win'][1 + intDiv(nth, 10)], '"}'),
        kind = 'match_search', concat('{"ticket":"ticket-', toString(number - nth % 25), '","mode":"',
          if(dice % 2 = 0, 'ranked', 'casual'), '"}'),
        kind = 'match_found', concat('{"ticket":"ticket-', toString(number - nth % 25), '"}'),
        kind = 'crash', '{"signal":"SIGSEGV"}',
        kind = 'performance', concat('{"frameTimeMs":', toString(8 + dice % 2500 / 100), ',"scene":"Arena"}'),
        kind = 'economy', concat('{"currency":"gold","amount":', toString(toInt64(dice % 400) - 200), ',"reason":"',
          ['quest', 'loot', 'shop', 'repair'][1 + dice % 4], '"}'),
        concat('{"weapon":"bow","level":', toString(dice % 30), '}')),
      false, ${PLACE}, intDiv(number, 100), nth
    FROM numbers(${from}, ${count})`;
}
