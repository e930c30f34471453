/** The command `questlog sql`. It runs one statement, or starts a prompt if standard input is a terminal. */
import { fstatSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { Command, InvalidArgumentError } from 'commander';
import { type AdminEndpoint, type Connection, Rejected } from '../connection.ts';
import { INTERRUPTED, onInterrupt } from '../interrupt.ts';
import { example } from '../manage.ts';
import { forTerminal } from '../print.ts';
import { writeAtomically } from './outputFile.ts';
import type { Names } from './statements.ts';

const TABLE_FORMAT = 'PrettyCompactMonoBlock';
const NAMES_FORMAT = /\bFORMAT\s+\w+(\s+SETTINGS\b.*)?$/is;
const NAMES_QUERY = 'SELECT table, name FROM system.columns WHERE database = currentDatabase()';

interface Options {
  readonly format?: string;
  readonly param?: Readonly<Record<string, string>>;
  readonly output?: string;
}

export function sqlCommand(connect: () => Promise<Connection>): Command {
  const command = new Command('sql')
    .description('run a SELECT statement in ClickHouse; docs/reference/clickhouse.md describes the tables')
    .argument('[statement...]', 'statement (default: read standard input, or open a prompt in a terminal)')
    .option('--format <name>', 'a ClickHouse format, such as CSVWithNames or JSONEachRow')
    .option('--param <name=value>', 'value of the parameter {name:Type}; can be repeated', withParam)
    .option('--output <file>', 'write the answer to a file, which appears only after it is complete');
  example(
    command,
    'questlog sql "SELECT event_type, count() FROM events GROUP BY event_type"\n  questlog sql --param day=2026-11-22 < question.sql\n  questlog sql --format Parquet --output events.parquet "SELECT * FROM game_events WHERE …"\n  questlog sql',
  );
  return command.action(async (words: string[], options: Options) => {
    const isAtTerminal = process.stdin.isTTY && process.stdout.isTTY;
    if (words.length === 0 && isAtTerminal) {
      if (options.output !== undefined) command.error('error: --output needs a statement');
      return await startPrompt((await connect()).admin, options);
    }
    const typed = words.length > 0 || process.stdin.isTTY ? words.join(' ') : await text(process.stdin);
    const query = typed.replace(/[;\s]+$/, '');
    if (query === '') command.error('error: a statement is needed, for example: questlog sql "SELECT 1"');
    const { output } = options;
    if (output !== undefined) return await save((await connect()).admin, query, { ...options, output });
    await answer((await connect()).admin, query, options).catch((error: unknown) => {
      if (error instanceof Rejected && fstatSync(STDOUT).isFile())
        throw new Rejected(`${error.message.trimEnd()}\n  ${USE_OUTPUT}`, error.code);
      throw error;
    });
  });
}

function withParam(text: string, before: Readonly<Record<string, string>> = {}): Record<string, string> {
  const [, name, value] = /^(\w+)=(.*)$/s.exec(text) ?? [];
  if (name === undefined || value === undefined) {
    throw new InvalidArgumentError('it must be name=value, such as day=2026-11-22');
  }
  return { ...before, [name]: value };
}

async function answer(
  admin: AdminEndpoint,
  query: string,
  options: Options,
  extra: { signal?: AbortSignal } = {},
): Promise<void> {
  const { format, response } = await requestAnswer(admin, query, options, extra);
  const bytes = Buffer.from(await response.arrayBuffer());
  const shown = process.stdout.isTTY ? forTerminal(bytes.toString()) : bytes;
  process.stdout.write(bytes.length === 0 && format === TABLE_FORMAT ? NO_ROWS : shown);
}

async function save(
  admin: AdminEndpoint,
  query: string,
  options: Options & { readonly output: string },
): Promise<void> {
  const stop = new AbortController();
  onInterrupt(() => stop.abort());
  try {
    const { format, response } = await requestAnswer(admin, query, options, { signal: stop.signal });
    const isEmpty = response.headers.get('Content-Length') === '0' && format === TABLE_FORMAT;
    const content =
      isEmpty || response.body === null ? Readable.from([NO_ROWS]) : Readable.from(response.body);
    await writeAtomically(options.output, content, stop.signal);
  } catch (error) {
    if (!stop.signal.aborted) throw error;
    process.exitCode = INTERRUPTED;
  }
}

async function requestAnswer(
  admin: AdminEndpoint,
  query: string,
  options: Options,
  extra: { signal?: AbortSignal },
): Promise<{ readonly format: string | undefined; readonly response: Response }> {
  const format = options.format ?? (NAMES_FORMAT.test(query) ? undefined : TABLE_FORMAT);
  const body = {
    query: format === undefined ? query : `${query}\nFORMAT ${format}`,
    parameters: options.param ?? {},
  };
  const response = await admin.request('runSql', { body, ...extra }).catch((error: unknown) => {
    throw error instanceof Rejected ? withParamHint(error) : error;
  });
  return { format, response };
}

const STDOUT = 1;
const USE_OUTPUT =
  'use --output FILE instead of > FILE: the file then appears only after the answer is complete';
const NO_ROWS = 'no rows\n';

function withParamHint(refused: Rejected): Rejected {
  const name = /Substitution [`'"](\w+)[`'"] is not set/.exec(refused.message)?.[1];
  if (name === undefined) return refused;
  return new Rejected(
    `${refused.message.trimEnd()}\n  set the parameter with --param ${name}=value`,
    refused.code,
  );
}

async function startPrompt(admin: AdminEndpoint, options: Options): Promise<void> {
  const { runPrompt } = await import('./prompt.ts');
  process.stderr.write(
    'End a statement with a semicolon. Tab completes names. Ctrl-C clears the input, Ctrl-D exits.\n',
  );
  await runPrompt({
    input: process.stdin,
    output: process.stdout,
    historyPath: join(homedir(), '.questlog_history'),
    execute: (statement, signal) => answer(admin, statement, options, { signal }),
    loadNames: (signal) => namesOf(admin, signal),
  });
}

async function namesOf(admin: AdminEndpoint, signal: AbortSignal): Promise<Names> {
  const { data }: NameRows = await admin.json('runSql', { body: { query: NAMES_QUERY }, signal });
  return {
    tables: [...new Set(data.map(({ table }) => table))],
    columns: [...new Set(data.map(({ name }) => name))],
  };
}

interface NameRows {
  readonly data: readonly { table: string; name: string }[];
}
