import { expect, test } from 'vitest';
import { completions, onOneLine, splitStatements } from './statements.ts';

test.each([
  ['SELECT 1', [], 'SELECT 1'],
  ['SELECT 1;', ['SELECT 1'], ''],
  ['SELECT 1; SELECT\n2 ;;\n SELECT 3', ['SELECT 1', 'SELECT\n2'], '\n SELECT 3'],
  [
    `SELECT ';', 'it''s;', 'a\\';b', "c;d", \`e;f\`; x`,
    [`SELECT ';', 'it''s;', 'a\\';b', "c;d", \`e;f\``],
    ' x',
  ],
  ['SELECT 1 -- not; here\n+ 1; ', ['SELECT 1 -- not; here\n+ 1'], ''],
  ['SELECT /* not; here */ 1;', ['SELECT /* not; here */ 1'], ''],
  ["SELECT 'still open; ", [], "SELECT 'still open; "],
  ['SELECT /* still; open', [], 'SELECT /* still; open'],
])('splits %j at the semicolons outside of strings and comments', (text, statements, rest) => {
  expect(splitStatements(text)).toEqual({ statements, rest });
});

test('formats a statement for the history on one line with the same meaning', () => {
  expect(onOneLine("SELECT 1 -- one\n  , 'a\nb--c'\nFROM events")).toBe("SELECT 1 , 'a\\nb--c' FROM events");
});

const names = { tables: ['events', 'sessions'], columns: ['event_type', 'session_id'] };

test.each([
  ['SELECT event_', ['event_type'], 'event_'],
  ['SELECT e.sess', ['session_id', 'sessions'], 'sess'],
  ['SELECT 1 FROM ', ['events', 'sessions'], ''],
  ['SELECT 1 from e', ['events'], 'e'],
  ['SEL', ['SELECT'], 'SEL'],
  ['sel', ['select'], 'sel'],
  ['SELECT ', [], ''],
])('completes %j to %j', (line, may, word) => {
  expect(completions(line, names)).toEqual([may, word]);
});
