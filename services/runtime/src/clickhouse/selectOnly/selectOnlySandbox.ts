/**
 * For the tests of the guard: an engine in a directory of its own, with the tables that the questions are about, and a
 * file and a table `private` that no question may ever read.
 */
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Session } from 'chdb';
import { type SelectOnly, type SelectOnlyEngine, selectOnly } from './selectOnly.ts';

/** The content of the file and of the table; an answer that holds it has read one of them. */
export const secret = 'top-secret-42';

/** `run` is unguarded; `guard` is the guard in front of the same engine. */
export type Sandbox = {
  readonly secretPath: string;
  run(sql: string): string;
  guard(query: string): Promise<SelectOnly>;
  /** The rows, each an array, as the format JSONCompact gives them. */
  rows(sql: string): unknown[];
  /** What lies beside the engine's own directory: a question must not change it. */
  files(): string;
  close(): void;
};

/** A session that stays open keeps the engine up, so that the fresh one of each query opens in a millisecond. */
export function openSandbox(): Sandbox {
  const directory = mkdtempSync(join(tmpdir(), 'questlog-select-only-'));
  const outside = join(directory, 'outside');
  mkdirSync(outside);
  const secretPath = join(outside, 'secret.csv');
  writeFileSync(secretPath, `${secret},7\n`);
  const data = join(directory, 'data');
  const keeper = new Session(data);
  const run = (sql: string, format = 'TSVRaw', database = 'questlog'): string => {
    const session = new Session(data);
    try {
      session.query(`USE ${database}`);
      session.query("SET max_execution_time = 2, max_result_rows = 100000, result_overflow_mode = 'break'");
      return session.query(sql, format);
    } finally {
      session.close();
    }
  };
  for (const sql of schema) run(sql, 'Null', 'default');
  const engine: SelectOnlyEngine = {
    database: 'questlog',
    ast: (sql) => Promise.resolve().then(() => run(sql)),
    tables: () => Promise.resolve(['events', 'reports', 'sessions', 'events_view']),
  };
  return {
    secretPath,
    run,
    guard: (query) => selectOnly(query, engine),
    rows: (sql) => (JSON.parse(run(`${sql}\nFORMAT JSONCompact`)) as { data: unknown[] }).data,
    files: () =>
      readdirSync(outside)
        .map((name) => `${name}: ${readFileSync(join(outside, name), 'utf8')}`)
        .join(),
    close: () => {
      keeper.close();
      rmSync(directory, { recursive: true });
    },
  };
}

const schema = [
  'CREATE DATABASE questlog ENGINE = Atomic',
  `CREATE TABLE questlog.events (id UUID, tenant_id String, session_id String, event_type String, payload String,
    occurred_at DateTime64(6, 'UTC'), tags Array(String), amount Int64, version UInt64)
    ENGINE = ReplacingMergeTree(version) ORDER BY (tenant_id, intHash32(amount), id) SAMPLE BY intHash32(amount)`,
  `INSERT INTO questlog.events SELECT toUUID('0190a000-0000-7000-8000-00000000000' || toString(number)),
    'tenant' || toString(number % 2), 'session' || toString(number % 3), ['kill', 'death', 'loot'][number % 3 + 1],
    '{"level":' || toString(number) || ',"where":{"map":"dust"},"items":[1,2,' || toString(number) || ']}',
    toDateTime64('2026-01-01 00:00:00', 6, 'UTC') + toIntervalHour(number), ['a', 'b' || toString(number)], number, 1
    FROM numbers(6)`,
  'CREATE TABLE questlog.reports (id String, session_id String) ENGINE = MergeTree ORDER BY id',
  "INSERT INTO questlog.reports VALUES ('r1', 'session0'), ('r2', 'session9')",
  'CREATE TABLE questlog.sessions (id String) ENGINE = MergeTree ORDER BY id',
  "INSERT INTO questlog.sessions VALUES ('session0'), ('session1')",
  'CREATE VIEW questlog.events_view AS SELECT event_type, count() AS n FROM questlog.events GROUP BY event_type',
  'CREATE TABLE questlog.private (x String) ENGINE = MergeTree ORDER BY x',
  `INSERT INTO questlog.private VALUES ('${secret}')`,
  'CREATE TABLE default.private AS questlog.private',
  'INSERT INTO default.private SELECT * FROM questlog.private',
];
