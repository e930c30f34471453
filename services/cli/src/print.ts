/** Prints results as tables or JSON to standard output, and progress to standard error. */

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

/** Serializes an event. Copies the text of its payload, because parsing the payload would change its numbers. */
export function withPayload(fields: object, payload: string, space = 0): string {
  return jsonText({ ...fields, payload: null }, space).replace(/null(?=\s*\}$)/, () =>
    unchangedJson(payload),
  );
}

/** Prepares JSON text from a game for printing. Escapes control characters only if standard output is a terminal. */
export function unchangedJson(json: string): string {
  return process.stdout.isTTY ? escapeControls(json) : json;
}

export function jsonText(value: object, space = 2): string {
  return escapeControls(JSON.stringify(value, null, space));
}

/** Escapes control characters in JSON text. Replaces a CR by a space, because JSON allows a CR only between tokens. */
export function escapeControls(json: string): string {
  return json.replaceAll('\r', ' ').replace(INVISIBLE, (found) =>
    found
      .split('')
      .map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)
      .join(''),
  );
}

/** Prints the progress of a command to standard error. On a terminal, the progress is one line, which appears after 2 s. */
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

  clear(): void {
    if (process.stderr.isTTY) process.stderr.write(CLEAR_LINE);
  }
}

export function count(n: number): string {
  return n.toLocaleString('en');
}

export function cellText(value: unknown): string {
  if (value === null || value === undefined) return '-';
  const text = typeof value === 'object' ? JSON.stringify(value) : String(value);
  return forTerminal(text.replace(/[\n\t]/g, '\uFFFD'));
}

/** Replaces characters that could control a terminal, change the text direction, or be invisible. Keeps line feeds and tabs. */
export function forTerminal(text: string): string {
  return text.replace(INVISIBLE, '\uFFFD');
}

const INVISIBLE = /(?![\n\t])[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\u{E0000}-\u{E007F}]/gu;

const SLOW_MS = 2_000;
const INTERVAL_MS = 5_000;
const CLEAR_LINE = '\r\x1b[K';
