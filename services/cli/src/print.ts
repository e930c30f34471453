/** Rows for people as a table, for programs as a bare JSON array; what is on the way goes to standard error. */

/** Columns are the fields of the rows, in this order. */
export function printRows(rows: readonly object[], columns: readonly string[], isJson: boolean): void {
  if (isJson) return void process.stdout.write(`${JSON.stringify(rows, null, 2)}\n`);
  const cells = [columns, ...rows.map((row) => columns.map((column) => shown(Reflect.get(row, column))))];
  const widths = columns.map((_, i) => Math.max(...cells.map((line) => line[i]?.length ?? 0)));
  for (const line of cells) {
    const padded = line.map((cell, i) => cell.padEnd(widths[i] ?? 0));
    process.stdout.write(`${padded.join('  ').trimEnd()}\n`);
  }
  if (rows.length === 0) process.stderr.write('none\n');
}

/** JSON whose last field is the payload byte for byte: to parse it would change what its numbers say. */
export function withPayload(fields: object, payload: string, space = 0): string {
  return JSON.stringify({ ...fields, payload: null }, undefined, space).replace(
    /null(?=\s*\}$)/,
    () => payload,
  );
}

/** A line that is written over; only on a terminal, and only once the work has taken two seconds. */
export function progress(startedMs: number, text: string): void {
  if (!process.stderr.isTTY || performance.now() - startedMs < SLOW_MS) return;
  process.stderr.write(`\r\x1b[K${text}`);
}

export function count(n: number): string {
  return n.toLocaleString('en');
}

function shown(value: unknown): string {
  if (value === null || value === undefined) return '-';
  const text = typeof value === 'object' ? JSON.stringify(value) : String(value);
  return forTerminal(text.replace(/[\n\t]/g, '\uFFFD'));
}

/** Without what could command a terminal, or turn around the text beside it, in a game's own texts; lines and tabs stay. */
export function forTerminal(text: string): string {
  return text.replace(/(?![\n\t])[\p{Cc}\p{Bidi_Control}\p{Zl}\p{Zp}]/gu, '\uFFFD');
}

const SLOW_MS = 2_000;
