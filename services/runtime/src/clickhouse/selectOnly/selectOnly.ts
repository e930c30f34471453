/**
 * The guard of `POST /admin/sql`: lets a question through only when it reads tables of the product's own database and computes. The engine
 * under it may be in-process, without users and without limits to what a file name or an address in a query can reach, so
 * nothing is left to its `readonly`: the text is cut into tokens and written anew, parsed by the engine's own parser, and
 * every node of the printed tree has to be on a list of what is allowed.
 */
import { Unavailable } from '../../process/errors.ts';
import { checkClauses } from './selectOnlyClauses.ts';
import { lex, serialise, type Token } from './selectOnlyLexer.ts';
import { standIn } from './selectOnlyStandIn.ts';
import { statementOf } from './selectOnlyStatement.ts';
import { readTree } from './selectOnlyTree.ts';
import { isReadable, treeFault } from './selectOnlyWalk.ts';

/**
 * `ast` runs a whole statement `EXPLAIN AST …` and answers its lines, joined by "\n" and not escaped; it rejects with the
 * engine's error. `tables` answers the names of the tables and views of the database.
 */
export type SelectOnlyEngine = {
  readonly database: string;
  ast(sql: string): Promise<string>;
  tables(): Promise<readonly string[]>;
};

export type SelectOnly =
  | { readonly ok: true; readonly sql: string }
  | { readonly ok: false; readonly detail: string };

/**
 * Answers the text to run, or the sentence that names what is not allowed. The caller runs it with the database as the current
 * database, asks for the format JSON, and sets the limits of rows, time and memory, none of which the text can change.
 * Rejects only when the engine cannot be asked.
 */
export async function selectOnly(query: string, engine: SelectOnlyEngine): Promise<SelectOnly> {
  const lexed = lex(query);
  if (!lexed.ok) return lexed;
  const tables = await engine.tables();
  const isTable = (name: string): boolean => isReadable(name, engine.database, tables);
  const statement = statementOf(lexed.tokens, { database: engine.database, isTable });
  if (statement.kind === 'refused') return { ok: false, detail: statement.detail };
  if (statement.kind === 'plain') return { ok: true, sql: serialise(statement.tokens) };
  const detail = await selectFault(statement.select, engine, isTable);
  return detail === undefined ? { ok: true, sql: serialise(lexed.tokens) } : { ok: false, detail };
}

/** The clauses come first: the engine obeys the SETTINGS of a query that it only explains. */
async function selectFault(
  select: readonly Token[],
  engine: SelectOnlyEngine,
  isTable: (name: string) => boolean,
): Promise<string | undefined> {
  const clauses = checkClauses(select);
  if (!clauses.ok) return clauses.detail;
  const stand = standIn(select);
  const printed = await explain(`EXPLAIN AST ${serialise(stand.tokens)}`, engine);
  if ('fault' in printed) return stand.nameOf(printed.fault);
  const tree = readTree(printed.text);
  if (tree === undefined) return 'the query is not understood';
  const fault = treeFault(tree, { ...clauses, tokens: select, stand, isTable });
  return fault === undefined ? undefined : stand.nameOf(fault);
}

async function explain(sql: string, engine: SelectOnlyEngine): Promise<{ text: string } | { fault: string }> {
  try {
    return { text: await engine.ast(sql) };
  } catch (error) {
    const sentence = sayingOf(error);
    if (sentence === undefined) throw error;
    return { fault: sentence };
  }
}

/** What ClickHouse says of the query; undefined for any other failure. Its list of what it had expected is left out. */
function sayingOf(error: unknown): string | undefined {
  if (!(error instanceof Error) || error instanceof Unavailable) return undefined;
  const named = 'type' in error && typeof error.type === 'string' && /^[A-Z_]+$/.test(error.type);
  if (!named && !/Code: \d+/.test(error.message)) return undefined;
  const sentence = error.message.replace(/^.*DB::Exception: /s, '').replace(/ ?Expected one of:.*$/s, '');
  return `the query does not parse: ${sentence.slice(0, 300).trim()}`;
}
