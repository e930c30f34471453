import { describe, expect, test } from 'vitest';
import { readStatement } from './statement.ts';

describe('an INSERT whose data follows it', () => {
  test.each([
    ['INSERT INTO t FORMAT CSV\n1,2\n', 'CSV', '1,2\n', 'INSERT INTO t'],
    ['insert into t format CSV \t\r\n1,2', 'CSV', '1,2', 'insert into t'],
    [
      'INSERT INTO db.t (a, `b c`) FORMAT RowBinary\n\n \0',
      'RowBinary',
      '\n \0',
      'INSERT INTO db.t (a, `b c`)',
    ],
    ['INSERT INTO t VALUES (1),(2)', 'Values', ' (1),(2)', 'INSERT INTO t'],
    ['INSERT INTO `values` (format) VALUES (1)', 'Values', ' (1)', 'INSERT INTO `values` (format)'],
    ['INSERT INTO format FORMAT TSV\nx', 'TSV', 'x', 'INSERT INTO format'],
    ['-- FORMAT x\nINSERT INTO t /* VALUES */ FORMAT TSV\nx', 'TSV', 'x', '-- FORMAT x\nINSERT INTO t'],
    [
      "INSERT INTO FUNCTION file('x', 'CSV') VALUES (1)",
      'Values',
      ' (1)',
      "INSERT INTO FUNCTION file('x', 'CSV')",
    ],
    ['INSERT INTO t (* EXCEPT(b)) FORMAT CSV\n1', 'CSV', '1', 'INSERT INTO t (* EXCEPT(b))'],
  ])('%j', (text, format, data, target) => {
    const statement = readStatement(text, true);
    expect(statement).toMatchObject({ kind: 'dataInsert', format });
    if (statement.kind !== 'dataInsert') throw new Error(statement.kind);
    expect(text.slice(statement.dataStart)).toBe(data);
    expect(text.slice(0, statement.targetEnd)).toBe(target);
  });

  test.each([
    ["INSERT INTO t (a) SETTINGS x = 1, y = 'FORMAT' FORMAT CSV\n1", "x = 1, y = 'FORMAT'"],
    ['INSERT INTO t SETTINGS x=1 VALUES (1)', 'x=1'],
    ["INSERT INTO t FORMAT CSV SETTINGS x=1, y='b'\n1", "x=1, y='b'"],
  ])('has its SETTINGS found in %j', (text, settings) => {
    const statement = readStatement(text, true);
    if (statement.kind !== 'dataInsert' || statement.settings === undefined) throw new Error('no settings');
    expect(text.slice(statement.settings.start, statement.settings.end).trim()).toBe(settings);
  });

  test('is not told before the byte behind its head is there, which may belong to the head', () => {
    const text = 'INSERT INTO t FORMAT RowBinaryWithNames\n';
    for (let end = 0; end <= text.length; end += 1) {
      expect(readStatement(text.slice(0, end), false).kind).toBe('incomplete');
    }
    expect(readStatement(`${text}x`, false).kind).toBe('dataInsert');
  });
});

describe('a statement without data', () => {
  test.each([
    ['SELECT 1', 'select', undefined],
    ['(SELECT 1)', 'select', undefined],
    ['WITH 1 AS a SELECT a FORMAT JSON;', 'select', 'JSON'],
    ['SELECT 1 FORMAT JSON SETTINGS a = 1 -- end', 'select', 'JSON'],
    ['SELECT format FROM t', 'select', undefined],
    ["SELECT 'FORMAT CSV'", 'select', undefined],
    ['SELECT 1 -- FORMAT CSV', 'select', undefined],
    ['SELECT x AS format SETTINGS a=1', 'select', undefined],
    ['SHOW TABLES', 'report', undefined],
    ['INSERT INTO t SELECT 1', 'write', undefined],
    ['INSERT INTO t (a) (SELECT 1)', 'write', undefined],
    ['INSERT INTO t WITH 1 AS a SELECT a', 'write', undefined],
    ['CREATE TABLE t (a Int8) ENGINE = Memory', 'write', undefined],
  ])('%j', (text, kind, format) => {
    const statement = readStatement(text, true);
    expect(statement.kind).toBe(kind);
    expect(
      'format' in statement && typeof statement.format === 'object' ? statement.format?.name : undefined,
    ).toBe(format);
  });

  test.each(['', '  \n', '-- nothing', '/* nothing */', '/* never closed'])('is empty: %j', (text) => {
    expect(readStatement(text, true)).toEqual({ kind: 'empty' });
  });

  test('ends before its semicolon and its comment', () => {
    expect(readStatement('SELECT 1 ; -- x', true)).toMatchObject({ end: 8 });
  });
});

test('data behind the line feed begin with any byte', () => {
  const front = 'INSERT INTO t FORMAT RowBinary\n';
  for (let byte = 0; byte < 256; byte++) {
    const statement = readStatement(`${front}${String.fromCharCode(byte)}x`, true);
    expect(statement, `byte ${byte}`).toMatchObject({ kind: 'dataInsert', dataStart: front.length });
  }
});

describe('refuses what a server does not take over HTTP', () => {
  test.each([
    ['SELECT 1; SELECT 2', /Multi-statements/],
    ["SELECT ';'; DROP TABLE t", /Multi-statements/],
    ["SELECT 1 INTO OUTFILE 'x'", /OUTFILE/],
    ["SELECT 1 INTO/**/outfile 'x'", /OUTFILE/],
    ["INSERT INTO t FROM INFILE '/etc/passwd' FORMAT CSV", /INFILE/],
    ["INSERT INTO t SELECT 1 FROM INFILE 'x'", /INFILE/],
    ['INSERT INTO t FORMAT CSV;\n1', /excessive ';'/],
    ["INSERT INTO t SELECT a FROM input('a Int8') FORMAT CSV\n1;2", /input\(\)/],
  ])('%j', (text, message) => {
    expect(() => readStatement(text, true)).toThrow(message);
  });

  test.each([
    "SELECT ';' AS a, \";\" AS b, `;` AS c, $x$ ; $x$, 'it''s; \\'; '",
    'SELECT 1 -- ; x',
    'SELECT 1 /* ; x */;;',
    'SELECT \u00e2\u0080\u0098;\u00e2\u0080\u0099',
  ])('but not what only looks like it: %j', (text) => {
    expect(readStatement(text, true).kind).toBe('select');
  });
});
