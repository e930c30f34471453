/** Compares log lines of processes with the fields that `docs/operating/logs.md` documents. */
import { expect } from 'vitest';
import { textOf } from './tidy/projectFiles.ts';

type LogLine = Readonly<Record<string, unknown>>;

const REQUIRED = ['time', 'level', 'service', 'event'];
/** The JSON of each documented field. */
const FIELDS: Readonly<Record<string, RegExp>> = {
  time: /^"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"$/,
  level: /^"(info|warn|error)"$/,
  service: /^"(questlog|embedded-clickhouse)"$/,
  event: /^"[a-z_]+"$/,
  worker: /^\d+$/,
  trace_id: /^"[0-9a-f]{32}"$/,
  requestId: /^"\S+"$/,
  causes: /^\["/,
  bug: /^(true|false)$/,
  stack: /^".*\\n +at /,
};

/** Parses the standard error of processes. Fails unless each line is a log line with the documented fields. */
export function logLinesOf(stderr: string): LogLine[] {
  const page = textOf('docs/operating/logs.md');
  const documented = [...page.matchAll(/^- `(\w+)`/gm)].map(([, name]) => name);
  expect(documented).toEqual(Object.keys(FIELDS));
  const lines: LogLine[] = stderr
    .split('\n')
    .filter((text) => text !== '')
    .map((text) => JSON.parse(text));
  for (const line of lines) {
    expect(Object.keys(line)).toEqual(expect.arrayContaining(REQUIRED));
    for (const [name, format] of Object.entries(FIELDS))
      if (name in line) expect(JSON.stringify(line[name]), `${name} of ${line['event']}`).toMatch(format);
  }
  return lines;
}

/** Fails if a line of a process's standard error is a warning or an error. @param expected events that may be warnings */
export function expectNoErrors(stderr: string, expected: readonly unknown[] = []): void {
  const lines = logLinesOf(stderr);
  expect(lines.filter(({ level, event }) => level !== 'info' && !expected.includes(event))).toEqual([]);
}
