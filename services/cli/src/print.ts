/** Rows for people as a table, for programs as a bare JSON array; what is on the way goes to standard error. */

/** Columns are the fields of the rows, in this order. */
export function printRows(rows: readonly object[], columns: readonly string[], isJson: boolean): void {
  if (isJson) return void process.stdout.write(`${jsonText(rows)}\n`);
  const cells = [columns, ...rows.map((row) => columns.map((column) => cellText(Reflect.get(row, column))))];
  const widths = columns.map((_, i) => Math.max(...cells.map((line) => line[i]?.length ?? 0)));
  for (const line of cells) {
    const padded = line.map((cell, i) => cell.padEnd(widths[i] ?? 0));
    process.stdout.write(`${padded.join('  ').trimEnd()}\n`);
  }
  if (rows.length === 0) process.stderr.write('none\n');
}

/** JSON whose last field is the payload as `asSent`: to parse it would change what its numbers say. */
export function withPayload(fields: object, payload: string, space = 0): string {
  return jsonText({ ...fields, payload: null }, space).replace(/null(?=\s*\}$)/, () =>
    unchangedJson(payload),
  );
}

/** JSON of a game byte for byte; for a terminal `escaped`. */
export function unchangedJson(json: string): string {
  return process.stdout.isTTY ? escapeControls(json) : json;
}

export function jsonText(value: object, space = 2): string {
  return escapeControls(JSON.stringify(value, null, space));
}

/** Reads as the same value, and commands no terminal. A CR is a blank of JSON here: its strings hold none. */
export function escapeControls(json: string): string {
  return json.replaceAll('\r', ' ').replace(INVISIBLE, (found) =>
    found
      .split('')
      .map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)
      .join(''),
  );
}

/**
 * Shows the progress of a command on standard error. On a terminal this is one line that is overwritten, from two seconds
 * after the start on. Otherwise it is a new line every five seconds.
 */
export class Progress {
  #nextMs = performance.now() + (process.stderr.isTTY ? SLOW_MS : INTERVAL_MS);

  show(text: string): void {
    const nowMs = performance.now();
    if (nowMs < this.#nextMs) return;
    if (process.stderr.isTTY) process.stderr.write(`${CLEAR_LINE}${text}`);
    else {
      this.#nextMs = nowMs + INTERVAL_MS;
      process.stderr.write(`${text}\n`);
    }
  }

  /** Removes the line from a terminal, so that other text can follow. */
  clear(): void {
    if (process.stderr.isTTY) process.stderr.write(CLEAR_LINE);
  }
}

export function count(n: number): string {
  return n.toLocaleString('en');
}

/** In one line. */
export function cellText(value: unknown): string {
  if (value === null || value === undefined) return '-';
  const text = typeof value === 'object' ? JSON.stringify(value) : String(value);
  return forTerminal(text.replace(/[\n\t]/g, '\uFFFD'));
}

/**
 * Without what could command a terminal, turn around the text beside it, or stand there unseen, in a game's own texts; lines
 * and tabs stay.
 */
export function forTerminal(text: string): string {
  return text.replace(INVISIBLE, '\uFFFD');
}

/** Controls, separators of lines, marks of direction, joiners, tags. */
const INVISIBLE = /(?![\n\t])[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\u{E0000}-\u{E007F}]/gu;

const SLOW_MS = 2_000;
const INTERVAL_MS = 5_000;
const CLEAR_LINE = '\r\x1b[K';
