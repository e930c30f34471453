/** Parses the part of ClickHouse's SQL that the services use. Unknown syntax is an error. */
import { Tokens } from './tokens.ts';

export type Expr =
  | { readonly kind: 'literal'; readonly value: unknown }
  | { readonly kind: 'param'; readonly name: string; readonly type: string }
  | { readonly kind: 'column'; readonly table: string | undefined; readonly name: string }
  | { readonly kind: 'call'; readonly name: string; readonly args: readonly Expr[] }
  | { readonly kind: 'field'; readonly of: Expr; readonly index: number }
  | { readonly kind: 'query'; readonly query: Query };

export interface Item {
  readonly expr: Expr;
  readonly name: string | undefined;
}

export interface Source {
  readonly from: string | Query;
  readonly alias: string;
  readonly isFinal: boolean;
}

export interface Select {
  readonly isDistinct: boolean;
  /** True for `*`, with optional replacements of columns. */
  readonly isStar: boolean;
  readonly items: readonly Item[];
  readonly source: Source | undefined;
  readonly join: { readonly source: Source; readonly on: Expr } | undefined;
  readonly where: Expr | undefined;
  readonly groupBy: readonly Expr[] | undefined;
  readonly orderBy: readonly { readonly expr: Expr; readonly isDescending: boolean }[];
  readonly limitBy: { readonly limit: Expr; readonly by: readonly Expr[] } | undefined;
  readonly limit: Expr | undefined;
}

export interface Query {
  readonly named: ReadonlyMap<string, Query>;
  /** Several selects are a union of distinct rows. */
  readonly selects: readonly Select[];
}

export type Statement =
  | {
      readonly kind: 'update';
      readonly table: string;
      readonly column: string;
      readonly to: Expr;
      where: Expr;
    }
  | { readonly kind: 'delete'; readonly table: string; readonly where: Expr }
  | { readonly kind: 'insert'; readonly table: string; readonly columns?: readonly string[]; query: Query };

export function parseQuery(sql: string): Query {
  const tokens = new Tokens(sql);
  const query = parsedQuery(tokens);
  tokens.expectEnd();
  return query;
}

export function parseStatement(sql: string): Statement {
  const tokens = new Tokens(sql);
  const statement = parsedStatement(tokens);
  if (tokens.take('SETTINGS')) tokens.skipRest();
  tokens.expectEnd();
  return statement;
}

function parsedStatement(tokens: Tokens): Statement {
  if (tokens.take('INSERT')) {
    tokens.expect('INTO');
    const table = tokens.identifier();
    const columns = tokens.take('(') ? namesUntilClosed(tokens) : undefined;
    const query = parsedQuery(tokens);
    return { kind: 'insert', table, query, ...(columns && { columns }) };
  }
  tokens.expect('ALTER');
  tokens.expect('TABLE');
  const table = tokens.identifier();
  if (tokens.take('DELETE')) {
    tokens.expect('WHERE');
    return { kind: 'delete', table, where: parsedExpr(tokens) };
  }
  tokens.expect('UPDATE');
  const column = tokens.identifier();
  tokens.expect('=');
  const to = parsedExpr(tokens);
  tokens.expect('WHERE');
  return { kind: 'update', table, column, to, where: parsedExpr(tokens) };
}

function namesUntilClosed(tokens: Tokens): string[] {
  const names = [tokens.identifier()];
  while (tokens.take(',')) names.push(tokens.identifier());
  tokens.expect(')');
  return names;
}

function parsedQuery(tokens: Tokens): Query {
  const named = new Map<string, Query>();
  if (tokens.take('WITH')) {
    const name = tokens.identifier();
    tokens.expect('AS');
    named.set(name, inParentheses(tokens, parsedQuery));
  }
  const selects = [parsedSelect(tokens)];
  while (tokens.take('UNION')) {
    tokens.expect('DISTINCT');
    selects.push(parsedSelect(tokens));
  }
  return { named, selects };
}

function inParentheses<T>(tokens: Tokens, parse: (tokens: Tokens) => T): T {
  tokens.expect('(');
  const parsed = parse(tokens);
  tokens.expect(')');
  return parsed;
}

function parsedSelect(tokens: Tokens): Select {
  if (tokens.isNext('(')) return inParentheses(tokens, parsedSelect);
  tokens.expect('SELECT');
  const isDistinct = tokens.take('DISTINCT');
  const isStar = tokens.take('*');
  const items = isStar ? replacements(tokens) : listOf(tokens, parsedItem);
  const source = tokens.take('FROM') ? parsedSource(tokens) : undefined;
  const join = parsedJoin(tokens);
  const where = tokens.take('WHERE') ? parsedExpr(tokens) : undefined;
  const groupBy = tokens.takeBoth('GROUP', 'BY') ? listOf(tokens, (inside) => parsedExpr(inside)) : undefined;
  const orderBy = tokens.takeBoth('ORDER', 'BY') ? listOf(tokens, parsedOrder) : [];
  let limit = tokens.take('LIMIT') ? parsedExpr(tokens) : undefined;
  let limitBy: Select['limitBy'];
  if (limit !== undefined && tokens.take('BY')) {
    limitBy = { limit, by: listOf(tokens, (inside) => parsedExpr(inside)) };
    limit = tokens.take('LIMIT') ? parsedExpr(tokens) : undefined;
  }
  return { isDistinct, isStar, items, source, join, where, groupBy, orderBy, limitBy, limit };
}

function parsedJoin(tokens: Tokens): Select['join'] {
  if (!tokens.take('INNER')) return undefined;
  tokens.expect('JOIN');
  const source = parsedSource(tokens);
  tokens.expect('ON');
  return { source, on: parsedExpr(tokens) };
}

function replacements(tokens: Tokens): Item[] {
  return tokens.take('REPLACE') ? inParentheses(tokens, (inside) => listOf(inside, parsedItem)) : [];
}

function listOf<T>(tokens: Tokens, parse: (tokens: Tokens) => T): T[] {
  const list = [parse(tokens)];
  while (tokens.take(',')) list.push(parse(tokens));
  return list;
}

function parsedItem(tokens: Tokens): Item {
  const expr = parsedExpr(tokens);
  if (tokens.take('AS')) return { expr, name: tokens.identifier() };
  return { expr, name: expr.kind === 'column' ? expr.name : undefined };
}

function parsedOrder(tokens: Tokens): Select['orderBy'][number] {
  return { expr: parsedExpr(tokens), isDescending: tokens.take('DESC') };
}

function parsedSource(tokens: Tokens): Source {
  const from = tokens.isNext('(') ? inParentheses(tokens, parsedQuery) : tokens.identifier();
  const isFinal = tokens.take('FINAL');
  const alias = tokens.take('AS') ? tokens.identifier() : typeof from === 'string' ? from : '';
  return { from, alias, isFinal };
}

/** Binary operators, lowest precedence first. */
const LEVELS = [['OR'], ['AND']] as const;
const COMPARISONS = ['=', '!=', '<=', '>=', '<', '>'] as const;

function parsedExpr(tokens: Tokens, level = 0): Expr {
  const operators: readonly string[] | undefined = LEVELS[level];
  if (operators === undefined) return parsedNot(tokens);
  let left = parsedExpr(tokens, level + 1);
  for (let name = tokens.takeAny(operators); name !== undefined; name = tokens.takeAny(operators))
    left = call(name, left, parsedExpr(tokens, level + 1));
  return left;
}

function parsedNot(tokens: Tokens): Expr {
  return tokens.take('NOT') ? call('NOT', parsedNot(tokens)) : parsedComparison(tokens);
}

function parsedComparison(tokens: Tokens): Expr {
  const left = parsedSum(tokens);
  const operator = tokens.takeAny(COMPARISONS);
  if (operator !== undefined) return call(operator, left, parsedSum(tokens));
  if (tokens.take('IS')) {
    const isNot = tokens.take('NOT');
    tokens.expect('NULL');
    return isNot ? call('NOT', call('isNull', left)) : call('isNull', left);
  }
  if (tokens.take('BETWEEN')) {
    const least = parsedSum(tokens);
    tokens.expect('AND');
    return call('AND', call('>=', left, least), call('<=', left, parsedSum(tokens)));
  }
  const isNot = tokens.take('NOT');
  if (isNot) tokens.expect('IN');
  else if (!tokens.take('IN')) return left;
  const among = call('IN', left, parsedPrimary(tokens));
  return isNot ? call('NOT', among) : among;
}

function parsedSum(tokens: Tokens): Expr {
  let left = parsedPrimary(tokens);
  for (let name = tokens.takeAny(ARITHMETIC); name !== undefined; name = tokens.takeAny(ARITHMETIC))
    left = call(name, left, parsedPrimary(tokens));
  return left;
}

const ARITHMETIC = ['*', '/', '+', '-', '%'] as const;

function parsedPrimary(tokens: Tokens): Expr {
  const literal = tokens.literal();
  if (literal !== undefined) return { kind: 'literal', value: literal.value };
  const param = tokens.param();
  if (param !== undefined) return { kind: 'param', ...param };
  if (tokens.take('(')) return parsedGroup(tokens);
  const name = tokens.identifier();
  if (tokens.take('(')) return parsedCall(tokens, name);
  let expr: Expr = { kind: 'column', table: undefined, name };
  if (tokens.take('.')) {
    const index = tokens.literal();
    expr =
      index === undefined
        ? { kind: 'column', table: name, name: tokens.identifier() }
        : { kind: 'field', of: expr, index: Number(index.value) - 1 };
  }
  return expr;
}

/** Parses a query, a tuple, or an expression after an opening parenthesis. */
function parsedGroup(tokens: Tokens): Expr {
  if (tokens.isNext('SELECT')) {
    const query = parsedQuery(tokens);
    tokens.expect(')');
    return { kind: 'query', query };
  }
  const [first, ...others] = listOf(tokens, (inside) => parsedExpr(inside));
  tokens.expect(')');
  if (first === undefined) throw new Error('an empty tuple');
  return others.length === 0 ? first : call('tuple', first, ...others);
}

function parsedCall(tokens: Tokens, name: string): Expr {
  if (tokens.take(')')) return call(name);
  const args = listOf(tokens, (inside) => {
    // Skips the body of a lambda, because arrays are empty here.
    if (inside.isLambda()) inside.skipLambdaHead();
    return parsedExpr(inside);
  });
  tokens.expect(')');
  return call(name, ...args);
}

function call(name: string, ...args: readonly Expr[]): Expr {
  return { kind: 'call', name, args };
}
