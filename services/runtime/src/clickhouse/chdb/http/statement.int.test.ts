/**
 * Tests how the HTTP interface classifies statements. A statement is an INSERT with data, returns rows in a format, or is
 * rejected.
 */

import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { aClickHouse, auth, type TestServer } from '../testing/aClickHouse.ts';

let it: TestServer;
beforeAll(async () => {
  it = await aClickHouse();
});
afterAll(() => it[Symbol.asyncDispose]());

describe('an INSERT whose data follows it', () => {
  const stored = () => it.ask('SELECT a, s FROM t ORDER BY a FORMAT CSV');
  beforeEach(async () => {
    for (const table of ['t', '`values`', 'format', '`SETTINGS x = 1`']) {
      await it.ask(`DROP TABLE IF EXISTS ${table}`);
      await it.ask(`CREATE TABLE ${table} (a UInt64, s String, \`b c\` Int8) ENGINE = MergeTree ORDER BY a`);
    }
  });

  test.each([
    ['t', 'INSERT INTO t FORMAT CSV\n1,x,0\n'],
    ['t', 'insert into t format CSV \t\r\n1,x,0'],
    ['t', '-- FORMAT x\n/* INSERT\nVALUES */ # one\nINSERT INTO t /* VALUES */ FORMAT CSV\n1,x,0'],
    ['t', 'INSERT INTO TABLE questlog.t (a, `b c`, s) FORMAT CSV\n1,0,x'],
    ['t', "INSERT INTO t VALUES (1, 'x', 0)"],
    ['t', "INSERT INTO t (a, s)VALUES(1, 'x')"],
    ['t', 'INSERT INTO t (* EXCEPT(`b c`)) FORMAT CSV\n1,x'],
    ['`values`', "INSERT INTO `values` (a, s) VALUES (1, 'x')"],
    ['format', 'INSERT INTO format FORMAT CSV\n1,x,0'],
    ['`SETTINGS x = 1`', 'INSERT INTO `SETTINGS x = 1` SETTINGS max_threads=1 FORMAT CSV\n1,x,0'],
    ['t', "INSERT INTO t SETTINGS log_comment = 'VALUES FORMAT CSV' FORMAT CSV\n1,x,0"],
    ['t', "INSERT INTO t (a, s) SETTINGS max_threads=1 VALUES (1, 'x')"],
  ])('is stored in %s: %j', async (table, statement) => {
    await it.ask(statement);
    expect(await it.ask(`SELECT a, s FROM ${table} FORMAT CSV`)).toBe('1,"x"\n');
  });

  test('is distinguished from one without data', async () => {
    await it.ask("INSERT INTO t SELECT 1, 'FORMAT CSV', 0");
    await it.ask("INSERT INTO t (a, s) (SELECT a, 'y' FROM VALUES('a Int8', 2))");
    await it.ask("INSERT INTO t (a, s) WITH 3 AS a SELECT a, 'VALUES'");
    expect(await stored()).toBe('1,"FORMAT CSV"\n2,"y"\n3,"VALUES"\n');
  });

  test('starts its data after the line feed with any byte', async () => {
    await it.ask('CREATE TABLE IF NOT EXISTS bytes (a UInt8, at UInt8) ENGINE = MergeTree ORDER BY at');
    // Every control character and space, the characters of comments and statements, a letter, and bytes that are not UTF-8.
    const bytes = [...Array(33).keys(), ...Buffer.from('"#\'(*-/;A`{'), 0x7f, 0x80, 0xc2, 0xff];
    for (const byte of bytes) {
      const body = Buffer.from([...Buffer.from('INSERT INTO bytes FORMAT RowBinary\n'), byte, byte]);
      const sent = { method: 'POST', body, headers: auth(it.server) };
      expect((await fetch(it.server.url, sent)).status, `byte ${byte}`).toBe(200);
    }
    const [count, counts] = [bytes.length, 'SELECT count(), countIf(a = at), uniqExact(a) FROM bytes'];
    expect(await it.ask(counts)).toBe(`${count}\t${count}\t${count}\n`);
  });

  test('is rejected and stores nothing if its data does not start directly after the format', async () => {
    for (const [statement, message] of [
      ['INSERT INTO t (s) FORMAT CSV;\n1', /no ';'/],
      ["INSERT INTO t (s) FORMAT CSV SETTINGS log_comment = 'x'\n1", /SETTINGS before FORMAT/],
      ['INSERT INTO t (s) FORMAT /* what */ CSV\n1', /FORMAT and one name/],
      ["INSERT INTO t FROM INFILE '/etc/passwd' FORMAT CSV", /INFILE/],
      ["INSERT INTO t SELECT 1 FROM INFILE 'x'", /Syntax error|INFILE/],
      ["INSERT INTO t (a) SELECT a FROM input('a Int8') FORMAT CSV\n1;2", /Syntax error/],
      ["INSERT INTO t (a) SELECT a FROM input('a Int8')", /INVALID_USAGE_OF_INPUT/],
    ] as const) {
      await expect(it.ask(statement), statement).rejects.toThrow(message);
    }
    expect(await stored()).toBe('');
  });
});

test.each([
  ['SELECT 1 AS a', 'TabSeparated', '1\n'],
  ['(SELECT 1 AS a)', 'TabSeparated', '1\n'],
  ['SELECT 1 AS a UNION ALL (SELECT 1) FORMAT CSV', 'CSV', '1\n1\n'],
  ['WITH 1 AS a SELECT a FORMAT JSONEachRow;', 'JSONEachRow', '{"a":1}\n'],
  ['SELECT 1 AS a FORMAT /* x */ CSV SETTINGS max_threads = 1 -- end', 'CSV', '1\n'],
  [
    "SELECT 'x' AS a FORMAT CSV SETTINGS log_comment = 'FORMAT x SETTINGS', format_csv_delimiter = ';'",
    'CSV',
    '"x"\n',
  ],
  ['SELECT format FROM (SELECT 1 AS format)', 'TabSeparated', '1\n'],
  ["SELECT 'x FORMAT CSV'", 'TabSeparated', 'x FORMAT CSV\n'],
  ["SELECT 1 WHERE 'x FORMAT y SETTINGS z' != ''", 'TabSeparated', '1\n'],
  ['SELECT 1 AS `FORMAT CSV` -- FORMAT CSV', 'TabSeparated', '1\n'],
  ["SELECT 1 WHERE '\\\\' != '' AND ' FORMAT CSV' != ''", 'TabSeparated', '1\n'],
  ["SHOW DATABASES LIKE 'questlog' FORMAT CSV", 'CSV', '"questlog"\n'],
  ['SELECT 1 FORMAT Values', 'Values', '(1)'],
  ['SELECT 1 FORMAT Null SETTINGS max_threads = 1', 'Null', ''],
  ['EXISTS nothing', 'TabSeparated', '0\n'],
  [
    'SELECT \';\' AS a, ";" AS b, `;` AS c, $x$ ; $x$ FROM (SELECT 1 AS `;`)',
    'TabSeparated',
    ';\t1\t1\t ; \n',
  ],
  ["SELECT 'it''s; \\'; ' /* ; x */;;", 'TabSeparated', "it\\'s; \\'; \n"],
  ['SELECT ‘;’', 'TabSeparated', ';\n'],
])('finds the format of a response: %s', async (query, format, text) => {
  const response = await fetch(it.server.url, { method: 'POST', body: query, headers: auth(it.server) });
  expect(await response.text()).toBe(text);
  expect(response.headers.get('x-clickhouse-format')).toBe(format);
});

test.each([
  ['SELECT 1; SELECT 2', /Multi-statements/],
  ["SELECT ';'; DROP TABLE t", /Multi-statements/],
  ["SELECT 1 INTO OUTFILE 'x'", /OUTFILE/],
  ["SELECT 1 INTO/**/outfile 'x'", /OUTFILE/],
  ['-- nothing', /Empty query/],
  ['/* never closed', /not closed/],
])('rejects: %j', async (query, message) => {
  await expect(it.ask(query)).rejects.toThrow(message);
});

test('runs a long list, even if its normalized text exceeds ClickHouse’s default limit', async () => {
  const list = Array.from({ length: 60_000 }, (_, at) => 1000 + at).join(',');
  expect(await it.ask(`SELECT length([${list}])`)).toBe('60000\n');
});
