/** Tests the accounts of studios: attacks that read another studio's rows, and figures about the rows of all studios. */
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { request } from 'node:http';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { STUDIO_RULES, STUDIO_TABLES, type StudioReader } from '../../studioTables.ts';
import type { StudioStatement } from '../http/statementAudit.ts';
import { aClickHouse, auth, type TestServer } from '../testing/aClickHouse.ts';
import { answeredFromOwnRows, answeredWithoutRows, rejectedForStudios } from '../testing/studioAttacks.ts';
import { STUDIO_COLUMNS, studioRows } from '../testing/studioRows.ts';

const [OWN, OTHER] = ['aaaaaaaa-0000-4000-8000-000000000001', 'bbbbbbbb-0000-4000-8000-000000000002'];
const [GAME, SECOND_GAME] = ['cccccccc-0000-4000-8000-000000000003', 'dddddddd-0000-4000-8000-000000000004'];
const SECRET = 'secret of the other studio';
const PASSWORD = 'studio';
const STUDIO = { username: 'reader-1', password: PASSWORD };

const studios = new Map<string, StudioReader>();
const statements: StudioStatement[] = [];
let it: TestServer;
beforeAll(async () => {
  addAccount('reader-1', OWN, null);
  addAccount('reader-2', OWN, GAME);
  addAccount('reader-3', OTHER, null);
  const onStudioStatement = (statement: StudioStatement) => void statements.push(statement);
  const concurrency = { maxConcurrentQueries: 1, maxConcurrentReaders: 2 };
  it = await aClickHouse({ hasTables: true, studios, onStudioStatement, ...concurrency });
  await addRows(OWN, GAME, '1', 1);
  await addRows(OWN, SECOND_GAME, '1', 2);
  await addRows(OTHER, OTHER, SECRET, 99);
});
afterAll(() => it[Symbol.asyncDispose]());

function addAccount(
  username: string,
  tenantId: string,
  projectId: string | null,
  expiresAt: number | null = null,
  password = PASSWORD,
) {
  const sha256 = createHash('sha256').update(password).digest('hex');
  studios.set(username, { username, sha256, tenantId, projectId, expiresAt });
}

async function addRows(tenant: string, project: string, text: string, offset: number): Promise<void> {
  const columns = await it.ask(`${STUDIO_COLUMNS} FORMAT JSONEachRow`);
  const parsed = columns
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line));
  for (const [table, row] of studioRows(parsed, { tenant, project, text, offset }))
    await it.ask(`INSERT INTO ${table} FORMAT JSONEachRow\n${row}`);
}

async function attack(
  statement: string,
  account = STUDIO,
  parameters: Record<string, string> = {},
): Promise<string> {
  const body = statement.replaceAll('@OTHER@', OTHER).replaceAll('@OWN@', OWN);
  const defaults = { param_t: 'questlog.events', param_x: '[]', param_y: "('a')" };
  const url = `${it.server.url}/?${new URLSearchParams({ ...defaults, ...parameters })}`;
  const response = await fetch(url, { method: 'POST', body, headers: auth(account) });
  const text = await response.text();
  // An error repeats the statement, which can contain the id of the other studio.
  expect(text).not.toContain(SECRET);
  if (response.ok) expect(text).not.toContain(OTHER);
  return response.ok ? text.trimEnd() : `rejected: ${text}`;
}

test('every table and view has a rule for the accounts of studios', async () => {
  const tables = await it.ask("SELECT name FROM system.tables WHERE database = 'questlog' ORDER BY name");
  expect(tables.trim().split('\n')).toEqual(Object.keys(STUDIO_RULES).sort());
});

test.each(STUDIO_TABLES)('the account reads only rows of its studio: %s', async (table) => {
  const own = await attack(`SELECT DISTINCT tenant_id FROM ${table}`);
  expect(own).toBe(OWN);
  expect(await attack(`SELECT * FROM ${table} WHERE tenant_id != '${OWN}'`)).toBe('');
  const ofProject = await attack(`SELECT count() FROM ${table}`, { ...STUDIO, username: 'reader-2' });
  const isOfTenant = /^quota_usage/.test(table);
  expect(ofProject).toBe(isOfTenant ? '0' : '1');
});

test.each(Object.keys(STUDIO_RULES).filter((table) => STUDIO_RULES[table] === 'hidden'))(
  'the account cannot read a table for operators: %s',
  async (table) => {
    expect(await attack(`SELECT count() FROM ${table}`)).toMatch(/^rejected: Code: 497\. /);
    expect(await attack(`EXISTS ${table}`)).toMatch(/^rejected: |^0$/);
  },
);

test.each(answeredWithoutRows)('returns no row of the other studio: %s', async (statement) => {
  expect(await attack(statement)).toMatch(/^$|^rejected: Code: (36|46|47|60|497)\. /);
});

test.each(answeredFromOwnRows)('uses only own rows: %s', async (statement, answer) => {
  expect(await attack(statement)).toBe(answer);
});

test.each(rejectedForStudios)('rejects: %s', async (statement) => {
  expect(await attack(statement)).toMatch(/^rejected: /);
});

test.each([
  'log_comment',
  'role',
  'profile',
  'use_query_cache',
  'additional_table_filters',
  'max_rows_to_read',
])('rejects the parameter %s', async (name) => {
  const answer = await attack('SELECT payload FROM events', STUDIO, { [name]: `x ${OTHER} ` });
  expect(answer).toMatch(/^rejected: /);
});

test('the databases of system tables cannot be the current database', async () => {
  for (const database of ['system', 'information_schema', 'INFORMATION_SCHEMA'])
    expect(await attack('SELECT * FROM tables', STUDIO, { database })).toMatch(/^rejected: Code: 497/);
});

test('two studios with the same statement get their own rows', async () => {
  for (const settings of ['', ' SETTINGS final = 1']) {
    const statement = `SELECT sum(log_offset), count() FROM events WHERE event_type != 'x'${settings}`;
    for (let round = 0; round < 3; round++) {
      expect(await attack(statement)).toBe('3\t2');
      expect(await attack(statement, { ...STUDIO, username: 'reader-3' })).toBe('99\t1');
    }
  }
  expect(await it.askAsReader('SELECT count() FROM events')).toBe('3\n');
  expect(await it.number('SELECT count() FROM events')).toBe(3);
});

test('a response contains no number of rows or bytes that the engine read', async () => {
  const query = new URLSearchParams({ query: 'SELECT count() FROM events FORMAT JSON' });
  const response = await fetch(`${it.server.url}/?${query}`, { headers: auth(STUDIO) });
  expect(await response.json()).toEqual({
    meta: expect.any(Array),
    data: [{ 'count()': 2 }],
    rows: 1,
  });
  const summary = JSON.parse(response.headers.get('x-clickhouse-summary') ?? '');
  expect(new Set(Object.values(summary))).toEqual(new Set(['0']));
});

test.each([
  [
    "SELECT count(), 0x1F, -1.5e3 AS `it's 1`, c2 FROM (SELECT 'it\\'s player-13' AS c2 FROM numbers(2)) GROUP BY c2 -- player-13",
    'SELECT count(), ?, -? AS ?, c2 FROM (SELECT ? AS c2 FROM numbers(?)) GROUP BY c2',
    { code: 0, rows: 1, bytes: 27 },
  ],
  ['SELECT {player:String} FROM events', 'SELECT {player:String} FROM events', { code: 0, rows: 2 }],
  [
    "SELECT throwIf(payload = '1', 'player-13') FROM events",
    'SELECT throwIf(payload = ?, ?) FROM events',
    { code: 395 },
  ],
  [
    "SELECT * FROM system.users WHERE name = 'player-13'",
    'SELECT * FROM system.users WHERE name = ?',
    { code: 497 },
  ],
  [
    'SELECT id FROM events WHERE payload = "player-13"',
    'SELECT id FROM events WHERE payload = ?',
    { code: 47 },
  ],
  ["SELECT 'player-13' FROM", '', { code: 62 }],
  ["KILL QUERY WHERE query_id = 'player-13'", 'KILL QUERY WHERE query_id = ?', { code: 0 }],
])(
  'reports the account and the outcome of a statement, without literals: %s',
  async (sql, statement, outcome) => {
    statements.length = 0;
    await attack(sql, STUDIO, { query_id: 'q1', param_player: 'player-13' });
    expect(statements).toMatchObject([
      { reader: 'reader-1', tenantId: OWN, queryId: 'q1', statement, ...outcome },
    ]);
    expect(JSON.stringify(statements)).not.toContain('player-13');
  },
);

test('an error does not name a part of the table', async () => {
  const answer = await attack('SELECT toUInt8(event_type || repeat(toString(id), 2)) FROM events');
  expect(answer).toMatch(/CANNOT_PARSE_TEXT/);
  expect(answer).not.toMatch(/part|mark|\/store\//);
});

test('lists the studio’s tables and columns for clients', async () => {
  const tables = await attack("SELECT name FROM system.tables WHERE database = 'questlog' ORDER BY name");
  expect(tables.split('\n')).toEqual([...STUDIO_TABLES].sort());
  expect(await attack("SELECT count(*) > 100 FROM system.columns WHERE database = 'questlog'")).toBe('1');
  const joined =
    'SELECT count(system.columns.name) > 100 FROM system.tables JOIN system.columns USING (database)';
  expect(await attack(joined)).toBe('1');
  expect(await attack('DESCRIBE system.one')).toMatch(/^dummy/);
  for (const column of ['character_octet_length AS BUFFER_LENGTH', 'character_maximum_length'])
    expect(await attack(`SELECT ${column} FROM information_schema.columns LIMIT 1`)).toBe('\\N');
  expect(await attack('SELECT character_octet_length FROM system.columns LIMIT 1')).toBe('\\N');
  expect(await attack('EXISTS system.one')).toBe('1');
});

test('a studio runs one query at a time, and cannot cancel or delay the query of another studio', async () => {
  const other = { ...STUDIO, username: 'reader-3' };
  const ended: string[] = [];
  const note = (name: string) => () => void ended.push(name);
  const long = attack('SELECT sleep(2)', other, { query_id: 'long' });
  const running = "SELECT count() FROM system.processes WHERE query LIKE 'SELECT sleep(2%'";
  await expect.poll(() => it.number(running)).toBe(1);
  // An update of the accounts replaces the objects.
  addAccount('reader-3', OTHER, null);
  const next = attack('SELECT 1', other);
  const killed = attack("KILL QUERY WHERE query_id = 'long'");
  const own = attack('SELECT 1');
  await Promise.all([long.then(note('long')), next.then(note('next')), own.then(note('own'))]);
  expect(ended).toEqual(['own', 'long', 'next']);
  expect([await long, await killed]).toEqual(['0', '']);
});

test.each([
  ['was dropped', () => studios.delete('reader-6')],
  ['has another password', () => addAccount('reader-6', OTHER, null, null, 'other')],
  ['has expired', () => addAccount('reader-6', OWN, null, Date.now() - 1)],
])('a statement is rejected if its account %s while the statement was sent', async (_, change) => {
  addAccount('reader-6', OWN, null);
  const headers = { ...auth({ username: 'reader-6', password: PASSWORD }), expect: '100-continue' };
  const sending = request(it.server.url, { method: 'POST', headers });
  await once(sending, 'continue');
  change();
  sending.end('SELECT 1');
  const [response] = await once(sending, 'response');
  expect([response.statusCode, await text(response)]).toEqual([403, expect.stringMatching(/^Code: 516/)]);
});

test('an expired, dropped, or wrong account is rejected', async () => {
  addAccount('reader-4', OWN, null, Date.now() - 1);
  addAccount('reader-5', OWN, null, Date.now() + 60_000);
  const statusOf = (username: string, password = PASSWORD) => attack('SELECT 1', { username, password });
  expect(await statusOf('reader-4')).toMatch(/^rejected: Code: 516/);
  expect(await statusOf('reader-5')).toBe('1');
  expect(await statusOf('reader-5', 'wrong')).toMatch(/^rejected: Code: 516/);
  studios.delete('reader-5');
  expect(await statusOf('reader-5')).toMatch(/^rejected: Code: 516/);
});
