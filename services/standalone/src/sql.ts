/** `npm run sql -- "SELECT …"`: asks the running Questlog through its admin listener and prints a table. */
import { loadConfig } from '@questlog/runtime/process/config';
import { messageOf } from '@questlog/runtime/process/errors';
import { isOnKafka, settings } from './config.ts';
import { credentialsPath, readCredentials } from './credentials.ts';

interface Answer {
  readonly meta: readonly { readonly name: string; readonly type: string }[];
  readonly data: readonly Readonly<Record<string, unknown>>[];
  readonly rows: number;
  readonly statistics: { readonly elapsed: number };
}

try {
  const query = process.argv.slice(2).join(' ');
  if (query.trim() === '') throw new Error('usage: npm run sql -- "SELECT count() FROM events"');
  const config = loadConfig(settings, process.env, 'QUESTLOG_');
  const { dataDir } = config;
  const credentials = readCredentials(credentialsPath(dataDir, isOnKafka(config)));
  if (credentials === undefined)
    throw new Error(`nothing has been started on ${dataDir} yet; run npm start first`);
  const { meta, data, rows, statistics } = await ask(credentials.adminUrl, credentials.adminToken, query);
  process.stdout.write(
    textTable(
      meta.map(({ name }) => name),
      data,
    ),
  );
  process.stdout.write(
    `${rows} ${rows === 1 ? 'row' : 'rows'} in ${(statistics.elapsed * 1000).toFixed(1)} ms\n`,
  );
} catch (error) {
  process.stderr.write(`${messageOf(error)}\n`);
  process.exitCode = 1;
}

async function ask(adminUrl: string, adminToken: string, query: string): Promise<Answer> {
  const response = await fetch(`${adminUrl}/admin/sql`, {
    method: 'POST',
    headers: { Authorization: `Bearer ${adminToken}`, 'Content-Type': 'application/json' },
    body: JSON.stringify({ query }),
  }).catch((cause: unknown) => {
    throw new Error(`Questlog does not answer at ${adminUrl}; is it running?`, { cause });
  });
  const text = await response.text();
  if (response.ok) return JSON.parse(text, asWritten);
  const problem: { detail?: string } = JSON.parse(text);
  throw new Error(problem.detail ?? `answered ${response.status}`);
}

/** Numbers as ClickHouse wrote them: a double would round 64-bit integers. */
function asWritten(key: string, value: unknown, ...[context]: { source?: string }[]): unknown {
  const isCell = typeof value === 'number' && key !== 'rows' && key !== 'elapsed';
  return isCell ? (context?.source ?? value) : value;
}

/** Columns are as wide as their widest cell, numbers stand to the right. */
function textTable(columns: readonly string[], rows: readonly Readonly<Record<string, unknown>>[]): string {
  const cells = rows.map((row) => columns.map((column) => cellText(row[column])));
  const widths = columns.map((column, i) =>
    Math.max(column.length, ...cells.map((row) => row[i]?.length ?? 0)),
  );
  const numeric = columns.map(
    (_, i) => cells.length > 0 && cells.every((row) => /^-?[\d.]+$/.test(row[i] ?? '')),
  );
  const line = (texts: readonly string[]): string =>
    texts
      .map((text, i) => (numeric[i] === true ? text.padStart(widths[i] ?? 0) : text.padEnd(widths[i] ?? 0)))
      .join('  ')
      .trimEnd();
  const rule = widths.map((width) => '─'.repeat(width)).join('  ');
  return `${[line(columns), rule, ...cells.map(line)].join('\n')}\n`;
}

function cellText(value: unknown): string {
  return typeof value === 'string' ? value.replaceAll('\n', '⏎') : JSON.stringify(value ?? null);
}
