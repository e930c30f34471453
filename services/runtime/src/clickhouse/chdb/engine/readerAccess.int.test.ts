/** Tests the read-only account with attacks and with typical queries of analytics and BI clients. */
import { existsSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { aClickHouse, auth, type TestServer } from '../testing/aClickHouse.ts';
import { answered, refused } from '../testing/attacks.ts';
import { isReaderSetting } from './readerAccess.ts';

const SECRET = 'nobody may read this';
let it: TestServer;
beforeAll(async () => {
  it = await aClickHouse();
  writeFileSync(join(it.directory, 'secret'), SECRET);
  const columns = 'a UInt64, id String, tenant_id UUID, project_id UUID';
  await it.ask(`CREATE TABLE events (${columns}) ENGINE = MergeTree ORDER BY a`);
  await it.ask("INSERT INTO events (a, id) VALUES (1, 'x'), (2, 'y')");
  await it.ask('CREATE DATABASE other ENGINE = Atomic');
  await it.ask('CREATE TABLE other.private (x String) ENGINE = MergeTree ORDER BY x');
  await it.ask(`INSERT INTO other.private VALUES ('${SECRET}')`);
});
afterAll(() => it[Symbol.asyncDispose]());

async function attack(query: string): Promise<string> {
  const text = query
    .replaceAll('@FILE@', join(it.directory, 'secret'))
    .replaceAll('@OUT@', join(it.directory, 'written'))
    .replaceAll('default.private', 'other.private');
  const parameters = { param_f: 'file', param_t: 'system.processes', param_y: "('a')" };
  const answer = await it.askAsReader(text, parameters).catch((error: Error) => `refused: ${error.message}`);
  expect(answer).not.toContain(SECRET);
  expect(existsSync(join(it.directory, 'written'))).toBe(false);
  return answer;
}

test.each(refused)('rejects: %s', async (query) => {
  const answer = await attack(query);
  expect(answer).toMatch(/^refused: Code: \d+\. /);
  // An attack that fails because an object is missing would prove nothing. An attack with a path is exempt, because a path is
  // never a table.
  if (!query.includes('@FILE@')) expect(answer).not.toMatch(/Code: (46|47|60)\. /);
});

test.each(answered)('answers without access to anything outside: %s', async (query) => {
  expect(await attack(query)).not.toMatch(/^refused/);
});

test('changes nothing', async () => {
  expect(await it.number('SELECT count() FROM events')).toBe(2);
  expect(readdirSync(join(it.directory, 'outgoing'))).toEqual([]);
});

test.each([
  ["SELECT count() FROM information_schema.tables WHERE table_schema = 'questlog'", '1\n'],
  [
    "SELECT name FROM system.columns WHERE database = 'questlog' ORDER BY name",
    'a\nid\nproject_id\ntenant_id\n',
  ],
  ['SELECT uniqHLL12(a) FROM events', '2\n'],
  ["SELECT format('{}-{}', id, 'file') AS text FROM events ORDER BY a LIMIT 1", 'x-file\n'],
  ['FROM events SELECT count()', '2\n'],
  ['SELECT sum(a) FROM events FORMAT JSONEachRow', '{"sum(a)":3}\n'],
  ['SELECT id, sum(a) FROM events GROUP BY id WITH TOTALS ORDER BY id', 'x\t1\ny\t2\n\n\t3\n'],
  ["SELECT a, name FROM (VALUES (1, 'a')) AS t (a, name)", '1\ta\n'],
  ["SELECT count() FROM events WHERE id LIKE '%file(%' OR id = 'INTO OUTFILE'", '0\n'],
  ["SELECT getSetting('max_threads') SETTINGS max_threads = 3, session_timezone = 'UTC'", '3\n'],
  // A BI tool can name a setting that a reader cannot change, with its current value.
  ["SELECT getSetting('max_rows_to_sort') SETTINGS max_rows_to_sort = 0", '0\n'],
  ["SELECT (SELECT getSetting('join_use_nulls') SETTINGS join_use_nulls = 1)", 'true\n'],
  [
    'WITH RECURSIVE t AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM t WHERE n < 3) SELECT max(n) FROM t',
    '3\n',
  ],
  ['SHOW TABLES', 'events\n'],
  ['DESCRIBE (SELECT a, id FROM events)', 'a\tUInt64\t\t\t\t\t\nid\tString\t\t\t\t\t\n'],
])('answers an ordinary query: %s', async (query, answer) => {
  expect(await it.askAsReader(query)).toBe(answer);
});

test('accepts a client’s settings within their limits, and rejects others by name', async () => {
  const asked = (settings: Record<string, string>) =>
    it.askAsReader("SELECT getSetting('max_execution_time'), {x:String}", { ...settings, param_x: 'bound' });
  expect(await asked({ max_execution_time: '5', max_result_rows: '9', readonly: '2' })).toBe('5\tbound\n');
  await expect(asked({ max_execution_time: '0' })).rejects.toThrow(
    /max_execution_time shouldn't be less than 1/,
  );
  await expect(asked({ max_memory_usage: '99999999999' })).rejects.toThrow(
    /max_memory_usage shouldn't be greater/,
  );
  await expect(asked({ format_schema: 'x' })).rejects.toThrow(
    /Cannot modify 'format_schema' setting in readonly/,
  );
  await expect(it.askAsReader('SELECT 1', { database: 'system' })).rejects.toThrow(/ACCESS_DENIED/);
});

test('accepts query parameters whose types contain text', async () => {
  const query =
    "SELECT {e:Enum8('a\\'b' = 1)}, toTypeName({d:DateTime64(3, 'UTC')}), {a:Array(Tuple(n Int8))}";
  const parameters = { param_e: "a'b", param_d: '2026-01-01 00:00:00.000', param_a: '[(1)]' };
  expect(await it.askAsReader(query, parameters)).toBe("a\\'b\tDateTime64(3, \\'UTC\\')\t[(1)]\n");
});

test.each([
  'additional_table_filters',
  'additional_result_filter',
  'parallel_replicas_custom_key',
  'dialect',
  'format_schema',
  'http_response_headers',
  'profile',
  'role',
  'log_comment',
])('rejects the setting %s, which contains SQL or reveals data', async (name) => {
  await expect(it.askAsReader('SELECT 1', { [name]: 'x' })).rejects.toThrow(/^Code: (48|164)/);
});

test.each([
  "SELECT (SELECT getSetting('log_comment') SETTINGS log_comment = 'x')",
  "SELECT * FROM (SELECT getSetting('max_rows_to_sort') SETTINGS max_threads = 1, max_rows_to_sort = 5)",
  "WITH x AS (SELECT 1 SETTINGS additional_table_filters = {'a': '1'}, max_threads = 1) SELECT * FROM x",
])('rejects a setting in a subquery, which chdb would apply: %s', async (query) => {
  await expect(it.askAsReader(query)).rejects.toThrow(/^Code: 164.*Cannot modify/);
});

test('lowers a time limit above the maximum, and names the limit in the response', async () => {
  const limited = async (seconds: number) => {
    const query = `query=SELECT+getSetting('max_execution_time')&max_execution_time=${seconds}`;
    const response = await fetch(`${it.server.url}/?${query}`, { headers: auth(it.reader) });
    return [await response.text(), response.headers.get('x-questlog-lowered-settings')];
  };
  expect(await limited(35)).toEqual(['30\n', 'max_execution_time=30']);
  expect(await limited(30)).toEqual(['30\n', null]);
});

test('system.settings lists the settings that a reader can change, and no others', async () => {
  const listed = await it.askAsReader('SELECT name FROM system.settings WHERE NOT readonly ORDER BY name');
  const names = listed.trim().split('\n');
  expect(names).toContain('max_threads');
  for (const name of names) expect(isReaderSetting(name), name).toBe(true);
  expect(await it.askAsReader('SELECT count() FROM system.settings')).toBe(`${names.length}\n`);
  expect(await it.number('SELECT count() FROM system.settings')).toBeGreaterThan(1_000);
  // A statement with another source keeps the strict mode.
  expect(await it.askAsReader('SELECT count() FROM system.settings, system.one WHERE NOT readonly')).toBe(
    '0\n',
  );
});

test('an error refers to the text that was sent', async () => {
  const error = await it.askAsReader('SELECT (1').catch((caught: Error) => caught.message);
  expect(error).toMatch(/Syntax error: failed at position 8/);
  expect(error).not.toMatch(/OUTFILE|formatQuery/);
});

test('the product’s own account cannot use files or addresses as tables either', async () => {
  for (const source of [
    `file('${join(it.directory, 'secret')}', LineAsString)`,
    "url('http://127.0.0.1:1/', CSV, 'a String')",
    "remote('127.0.0.1', system.one)",
  ]) {
    await expect(it.ask(`SELECT * FROM ${source}`)).rejects.toThrow(/ACCESS_DENIED/);
  }
});
