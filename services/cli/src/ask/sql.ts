/** `questlog sql`: one question to ClickHouse, or at a terminal as many as one likes. */
import { fstatSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { Command, InvalidArgumentError } from 'commander';
import { INTERRUPTED, onInterrupt } from '../interrupt.ts';
import { example } from '../manage.ts';
import { forTerminal } from '../print.ts';
import { type Endpoint, type Reach, Refused } from '../reach.ts';
import { writeWhole } from './outputFile.ts';
import type { Names } from './statements.ts';

const TABLE = 'PrettyCompactMonoBlock';
/** The question names a format itself. A text that only ends like that is answered in JSON. */
const NAMES_FORMAT = /\bFORMAT\s+\w+(\s+SETTINGS\b.*)?$/is;
const NAMES = 'SELECT table, name FROM system.columns WHERE database = currentDatabase()';

interface Options {
  readonly format?: string;
  readonly param?: Readonly<Record<string, string>>;
  readonly output?: string;
}

/** Prints ClickHouse's own table, or another format. */
export function sqlCommand(at: () => Promise<Reach>): Command {
  const command = new Command('sql')
    .description('ask ClickHouse; the tables: docs/reference/clickhouse.md')
    .argument('[statement...]', 'one SELECT; without it standard input, at a terminal a prompt')
    .option('--format <name>', 'any of ClickHouse’s, as CSVWithNames or JSONEachRow')
    .option('--param <name=value>', 'what the statement calls {name:Type}; as often as needed', withParam)
    .option('--output <file>', 'write the answer to a file, which appears only after it is complete');
  example(
    command,
    'questlog sql "SELECT event_type, count() FROM events GROUP BY event_type"\n  questlog sql --param day=2026-11-22 < question.sql\n  questlog sql --format Parquet --output events.parquet "SELECT * FROM game_events WHERE …"\n  questlog sql',
  );
  return command.action(async (words: string[], options: Options) => {
    const isAtTerminal = process.stdin.isTTY && process.stdout.isTTY;
    if (words.length === 0 && isAtTerminal) {
      if (options.output !== undefined) command.error('error: --output needs a statement');
      return await atPrompt((await at()).admin, options);
    }
    const given = words.length > 0 || process.stdin.isTTY ? words.join(' ') : await text(process.stdin);
    const query = given.replace(/[;\s]+$/, '');
    if (query === '') command.error('error: a statement is needed, as in: questlog sql "SELECT 1"');
    const { output } = options;
    if (output !== undefined) return await save((await at()).admin, query, { ...options, output });
    await answer((await at()).admin, query, options).catch((error: unknown) => {
      if (error instanceof Refused && fstatSync(STDOUT).isFile())
        throw new Refused(`${error.message.trimEnd()}\n  ${USE_OUTPUT}`, error.code);
      throw error;
    });
  });
}

/** @throws InvalidArgumentError where there is no name. */
function withParam(text: string, before: Readonly<Record<string, string>> = {}): Record<string, string> {
  const [, name, value] = /^(\w+)=(.*)$/s.exec(text) ?? [];
  if (name === undefined || value === undefined) {
    throw new InvalidArgumentError('it is name=value, as in day=2026-11-22');
  }
  return { ...before, [name]: value };
}

async function answer(
  admin: Endpoint,
  query: string,
  options: Options,
  more: { signal?: AbortSignal } = {},
): Promise<void> {
  const { format, answered } = await asked(admin, query, options, more);
  const bytes = Buffer.from(await answered.arrayBuffer());
  const shown = process.stdout.isTTY ? forTerminal(bytes.toString()) : bytes;
  process.stdout.write(bytes.length === 0 && format === TABLE ? NO_ROWS : shown);
}

/** Writes the answer to a file. Ctrl-C leaves no file. */
async function save(
  admin: Endpoint,
  query: string,
  options: Options & { readonly output: string },
): Promise<void> {
  const stop = new AbortController();
  onInterrupt(() => stop.abort());
  try {
    const { format, answered } = await asked(admin, query, options, { signal: stop.signal });
    const isEmpty = answered.headers.get('Content-Length') === '0' && format === TABLE;
    const content =
      isEmpty || answered.body === null ? Readable.from([NO_ROWS]) : Readable.from(answered.body);
    await writeWhole(options.output, content, stop.signal);
  } catch (error) {
    if (!stop.signal.aborted) throw error;
    process.exitCode = INTERRUPTED;
  }
}

async function asked(
  admin: Endpoint,
  query: string,
  options: Options,
  more: { signal?: AbortSignal },
): Promise<{ readonly format: string | undefined; readonly answered: Response }> {
  const format = options.format ?? (NAMES_FORMAT.test(query) ? undefined : TABLE);
  const body = {
    query: format === undefined ? query : `${query}\nFORMAT ${format}`,
    parameters: options.param ?? {},
  };
  const answered = await admin.request('POST', '/admin/sql', { body, ...more }).catch((error: unknown) => {
    throw error instanceof Refused ? withWayToSet(error) : error;
  });
  return { format, answered };
}

const STDOUT = 1;
/** The shell creates the file of a redirection before the command starts. */
const USE_OUTPUT =
  'use --output FILE instead of > FILE: the file then appears only after the answer is complete';
const NO_ROWS = 'no rows\n';

/** ClickHouse says of a {name:Type} without a value only that it has none. */
function withWayToSet(refused: Refused): Refused {
  const name = /Substitution [`'"](\w+)[`'"] is not set/.exec(refused.message)?.[1];
  if (name === undefined) return refused;
  return new Refused(`${refused.message.trimEnd()}\n  give it as --param ${name}=value`, refused.code);
}

async function atPrompt(admin: Endpoint, options: Options): Promise<void> {
  const { converse } = await import('./prompt.ts');
  process.stderr.write('A statement ends with ; and Tab completes names. Ctrl-C clears, Ctrl-D ends.\n');
  await converse({
    input: process.stdin,
    output: process.stdout,
    historyPath: join(homedir(), '.questlog_history'),
    ask: (statement, signal) => answer(admin, statement, options, { signal }),
    names: (signal) => namesOf(admin, signal),
  });
}

async function namesOf(admin: Endpoint, signal: AbortSignal): Promise<Names> {
  const { data }: NameRows = await admin.json('POST', '/admin/sql', { body: { query: NAMES }, signal });
  return {
    tables: [...new Set(data.map(({ table }) => table))],
    columns: [...new Set(data.map(({ name }) => name))],
  };
}

interface NameRows {
  readonly data: readonly { table: string; name: string }[];
}
