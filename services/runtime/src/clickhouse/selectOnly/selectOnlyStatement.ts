/**
 * Which statement a question is: a SELECT, one of the few that only describe, or something that is refused. What comes
 * before the SELECT (EXPLAIN, DESCRIBE) is matched token by token, because the printed tree does not show all of it.
 */
import { isName, isSymbol, isWord, type Token } from './selectOnlyLexer.ts';
import { allowedExplainOptions } from './selectOnlyPolicy.ts';

/** `select` is the part that has to pass the parser and the tree; a `plain` statement has none and is sent as it is. */
export type Statement =
  | { readonly kind: 'select'; readonly before: readonly Token[]; readonly select: readonly Token[] }
  | { readonly kind: 'plain'; readonly tokens: readonly Token[] }
  | { readonly kind: 'refused'; readonly detail: string };

export interface Askable {
  /** The product's own. */
  readonly database: string;
  /** Whether `db.name` or `name` is a table that may be asked. */
  isTable(name: string): boolean;
}

export function statementOf(tokens: readonly Token[], askable: Askable): Statement {
  const first = tokens[0];
  if (isWord(first, 'SELECT', 'WITH') || isSymbol(first, '('))
    return { kind: 'select', before: [], select: tokens };
  if (isWord(first, 'EXPLAIN')) return explain(tokens);
  if (isWord(first, 'SHOW')) return show(tokens, askable);
  if (isWord(first, 'DESCRIBE', 'DESC')) return describe(tokens, askable);
  if (isWord(first, 'EXISTS')) return exists(tokens, askable);
  return refuse(
    `a query starts with SELECT, WITH, EXPLAIN, SHOW, DESCRIBE or EXISTS, not with ${first?.value ?? 'nothing'}`,
  );
}

/**
 * EXPLAIN SYNTAX, QUERY TREE, PLAN, PIPELINE, ESTIMATE; then `option = number, …`; then a SELECT. Not AST: a FORMAT behind
 * it belongs to the query inside, so its answer is never JSON.
 */
function explain(tokens: readonly Token[]): Statement {
  let at = 1;
  if (isWord(tokens[at], 'QUERY') && isWord(tokens[at + 1], 'TREE')) at += 2;
  else if (isWord(tokens[at], 'SYNTAX', 'PLAN', 'PIPELINE', 'ESTIMATE')) at += 1;
  while (tokens[at]?.kind === 'word' && isSymbol(tokens[at + 1], '=')) {
    const option = tokens[at]?.text ?? '';
    if (!allowedExplainOptions.has(option.toLowerCase()))
      return refuse(`the EXPLAIN option ${option} is not allowed`);
    if (!/^\d+$/.test(tokens[at + 2]?.text ?? ''))
      return refuse(`the EXPLAIN option ${option} takes a whole number`);
    at += isSymbol(tokens[at + 3], ',') ? 4 : 3;
  }
  const select = tokens.slice(at);
  if (!isWord(select[0], 'SELECT', 'WITH') && !isSymbol(select[0], '('))
    return refuse('EXPLAIN is for a SELECT only');
  return { kind: 'select', before: tokens.slice(0, at), select };
}

/** SHOW DATABASES, SHOW TABLES and SHOW CREATE TABLE. */
function show(tokens: readonly Token[], askable: Askable): Statement {
  if (isWord(tokens[1], 'CREATE'))
    return aboutTable(tokens, isWord(tokens[2], 'TABLE', 'VIEW') ? 3 : 2, askable.isTable);
  if (!isWord(tokens[1], 'TABLES', 'DATABASES')) {
    return refuse('of SHOW only SHOW TABLES, SHOW DATABASES and SHOW CREATE TABLE are allowed');
  }
  let at = 2;
  if (isWord(tokens[1], 'TABLES') && isWord(tokens[at], 'FROM', 'IN')) {
    const database = tokens[at + 1]?.value ?? '';
    if (database !== askable.database) return refuse(`the database ${database} is not allowed`);
    at += 2;
  }
  if (isWord(tokens[at], 'NOT')) at += 1;
  if (isWord(tokens[at], 'LIKE', 'ILIKE') && tokens[at + 1]?.kind === 'string') at += 2;
  if (isWord(tokens[at], 'LIMIT') && tokens[at + 1]?.kind === 'number') at += 2;
  return at === tokens.length
    ? { kind: 'plain', tokens }
    : refuse(`"${tokens[at]?.text}" is not allowed in SHOW`);
}

function describe(tokens: readonly Token[], { isTable }: Askable): Statement {
  const at = isWord(tokens[1], 'TABLE') ? 2 : 1;
  if (!isSymbol(tokens[at], '(')) return aboutTable(tokens, at, isTable);
  return { kind: 'select', before: tokens.slice(0, at), select: tokens.slice(at) };
}

/** The question whether a table exists may name any table of the database, so only another one is refused. */
function exists(tokens: readonly Token[], { database, isTable }: Askable): Statement {
  const at = isWord(tokens[1], 'TABLE', 'VIEW') ? 2 : 1;
  const ownName = (name: string): string =>
    name.startsWith(`${database}.`) ? name.slice(database.length + 1) : name;
  return aboutTable(tokens, at, (name) => isTable(name) || /^\w+$/.test(ownName(name)));
}

function aboutTable(tokens: readonly Token[], at: number, isTable: (name: string) => boolean): Statement {
  const rest = tokens.slice(at);
  const qualified = rest.length === 3 && isSymbol(rest[1], '.');
  if (!isName(rest[0]) || (rest.length !== 1 && !(qualified && isName(rest[2])))) {
    return refuse(`${tokens[0]?.text.toUpperCase()} takes one table`);
  }
  if (rest.some((token) => token.value.includes('.') && isName(token)))
    return refuse('a name may not hold a point');
  const name = rest.map((token) => token.value).join('');
  return isTable(name) ? { kind: 'plain', tokens } : refuse(`the table ${name} is not allowed`);
}

function refuse(detail: string): Statement {
  return { kind: 'refused', detail };
}
