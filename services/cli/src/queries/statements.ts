/** Splits the input of the prompt into statements, and completes words. */

/** Matches strings, quoted names, comments, and semicolons. An unclosed string or comment extends to the end of the input. */
const TOKEN =
  /'(?:\\[\s\S]|[^'\\])*(?:'|$)|"(?:\\[\s\S]|[^"\\])*(?:"|$)|`(?:\\[\s\S]|[^`\\])*(?:`|$)|--[^\n]*|\/\*[\s\S]*?(?:\*\/|$)|;/g;

const KEYWORDS = [
  'SELECT DISTINCT FROM PREWHERE WHERE GROUP BY WITH ROLLUP TOTALS HAVING ORDER ASC DESC LIMIT OFFSET FORMAT SETTINGS',
  'INNER LEFT RIGHT FULL CROSS ANY ASOF ARRAY JOIN ON USING FINAL SAMPLE UNION ALL INTERSECT EXCEPT WINDOW OVER PARTITION',
  'AND OR NOT IN BETWEEN LIKE ILIKE IS NULL CASE WHEN THEN ELSE END CAST AS INTERVAL EXPLAIN DESCRIBE SHOW TABLES',
].flatMap((line) => line.split(' '));

export function splitStatements(text: string): { statements: string[]; rest: string } {
  const statements: string[] = [];
  let from = 0;
  for (const { 0: token, index } of text.matchAll(TOKEN)) {
    if (token !== ';') continue;
    statements.push(text.slice(from, index).trim());
    from = index + 1;
  }
  const rest = text.slice(from);
  return {
    statements: statements.filter((statement) => statement !== ''),
    rest: rest.trim() === '' ? '' : rest,
  };
}

/** Returns a statement as one line. Removes `--` comments, because they would hide the rest of the line. */
export function onOneLine(statement: string): string {
  return statement
    .replace(TOKEN, (token) => {
      if (token.startsWith('--')) return '';
      return token.startsWith("'") ? token.replaceAll('\n', '\\n') : token;
    })
    .replace(/\s*\n\s*/g, ' ')
    .trim();
}

export interface Names {
  readonly tables: readonly string[];
  readonly columns: readonly string[];
}

/** Returns the completions of the last word of a line, and the last word itself. */
export function completions(line: string, { tables, columns }: Names): [string[], string] {
  const word = /\w*$/.exec(line)?.[0] ?? '';
  const isTable = /\b(from|join)\s+\w*$/i.test(line);
  const matching = (names: readonly string[]): string[] => names.filter((name) => name.startsWith(word));
  if (isTable) return [matching(tables), word];
  if (word === '') return [[], ''];
  const isLower = word === word.toLowerCase();
  const keywords = matching(isLower ? KEYWORDS.map((keyword) => keyword.toLowerCase()) : KEYWORDS);
  return [[...new Set([...matching(columns), ...matching(tables), ...keywords])], word];
}
