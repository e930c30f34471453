/** `npm run sql -- "SELECT …"`: asks the running Questlog through its admin listener; prints a table, or another format. */
import { parseArgs } from 'node:util';
import { loadConfig } from '@questlog/runtime/process/config';
import { messageOf } from '@questlog/runtime/process/errors';
import { isOnKafka, settings } from './config.ts';
import { credentialsPath, readCredentials } from './credentials.ts';

type Row = Readonly<Record<string, unknown>>;

interface Table {
  readonly meta: readonly { readonly name: string; readonly type: string }[];
  readonly data: readonly Row[];
  readonly totals?: Row;
  readonly rows: number;
  readonly statistics: { readonly elapsed: number };
}

try {
  const { positionals, values } = parseArgs({
    allowPositionals: true,
    options: { format: { type: 'string' } },
  });
  const query = positionals.join(' ');
  if (query.trim() === '') {
    throw new Error('usage: npm run sql -- [--format CSVWithNames] "SELECT count() FROM events"');
  }
  const config = loadConfig(settings, process.env, 'QUESTLOG_');
  const { dataDir } = config;
  const credentials = readCredentials(credentialsPath(dataDir, isOnKafka(config)));
  if (credentials === undefined)
    throw new Error(`nothing has been started on ${dataDir} yet; run npm start first`);
  const { format } = values;
  const asked = format === undefined ? query : `${query.replace(/[;\s]+$/, '')}\nFORMAT ${format}`;
  const answer = await ask(credentials.adminUrl, credentials.adminToken, asked);
  const table = format === undefined ? tableOf(answer) : undefined;
  process.stdout.write(table === undefined ? answer.body : shown(table));
} catch (error) {
  process.stderr.write(`${messageOf(error)}\n`);
  process.exitCode = 1;
}

interface Answer {
  readonly contentType: string;
  readonly body: Buffer;
}

async function ask(adminUrl: string, adminToken: string, query: string): Promise<Answer> {
  const response = await fetch(`${adminUrl}/admin/sql`, {
    method: 'POST',
    headers: { Authorization: `Bearer ${adminToken}`, 'Content-Type': 'application/json' },
    body: JSON.stringify({ query }),
  }).catch((cause: unknown) => {
    throw new Error(`Questlog does not answer at ${adminUrl}; is it running?`, { cause });
  });
  const body = Buffer.from(await response.arrayBuffer());
  if (response.ok) return { contentType: response.headers.get('content-type') ?? '', body };
  const problem: { detail?: string } = JSON.parse(body.toString());
  throw new Error(problem.detail ?? `answered ${response.status}`);
}

/** Of an answer in ClickHouse's `JSON`; the question itself may have named another format. */
function tableOf({ contentType, body }: Answer): Table | undefined {
  if (!contentType.startsWith('application/json')) return undefined;
  const answer: Table = JSON.parse(body.toString(), asWritten);
  const isTable = Array.isArray(answer.meta) && !answer.data.some((row) => Array.isArray(row));
  return isTable ? answer : undefined;
}

function shown({ meta, data, totals, rows, statistics }: Table): string {
  const columns = meta.map(({ name }) => name);
  const time = `${(statistics.elapsed * 1000).toFixed(1)} ms`;
  return `${textTable(columns, data, totals)}${rows} ${rows === 1 ? 'row' : 'rows'} in ${time}\n`;
}

/** Numbers as ClickHouse wrote them: a double would round 64-bit integers. */
function asWritten(key: string, value: unknown, ...[context]: { source?: string }[]): unknown {
  const isCell = typeof value === 'number' && key !== 'rows' && key !== 'elapsed';
  return isCell ? (context?.source ?? value) : value;
}

/** Columns are as wide as their widest cell, numbers stand to the right; totals stand below a second rule. */
function textTable(columns: readonly string[], rows: readonly Row[], totals?: Row): string {
  const cells = [...rows, ...(totals ? [totals] : [])].map((row) =>
    columns.map((column) => cellText(row[column])),
  );
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
  const lines = cells.map(line);
  if (totals) lines.splice(-1, 0, rule);
  return `${[line(columns), rule, ...lines].join('\n')}\n`;
}

function cellText(value: unknown): string {
  return typeof value === 'string' ? value.replaceAll('\n', '⏎') : JSON.stringify(value ?? null);
}
