/**
 * The names that WITH gives, and where they hold. The printed tree says neither, and it matters: outside of its scope, and
 * inside of its own definition, the name of a common table expression is the name of a table, so
 * `WITH t AS (SELECT * FROM t) SELECT * FROM t` reads a table `t` that is on no list. Places are judged too wide and scopes
 * too narrow, never the other way round.
 */
import { membership } from './selectOnlyArguments.ts';
import { isName, isSymbol, isWord, type Token } from './selectOnlyLexer.ts';
import { plainName } from './selectOnlyStandIn.ts';

/** `tables` may stand in FROM and behind IN, `values` only behind IN. */
export type Scopes =
  | { readonly ok: true; readonly tables: ReadonlySet<string>; readonly values: ReadonlySet<string> }
  | { readonly ok: false; readonly detail: string };

export function checkScopes(tokens: readonly Token[], isTable: (name: string) => boolean): Scopes {
  const groups = groupsOf(tokens);
  const given = definitions(tokens, groups);
  if (given.length > maxNames)
    return { ok: false, detail: `WITH gives at most ${maxNames} names in a query` };
  const names = new Set(given.map((definition) => definition.name));
  for (const [at, token] of tokens.entries()) {
    const name = nameOf(token);
    if (!names.has(name) || isTable(name) || !mayBeTable(tokens, groups, at)) continue;
    const seen = given.some(
      (definition) => definition.name === name && holdsAt(tokens, groups, definition, at),
    );
    if (!seen)
      return { ok: false, detail: `${name} is used outside of the scope of its WITH: give it another name` };
  }
  const named = (isSubquery: boolean): Set<string> =>
    new Set(given.filter((definition) => definition.isSubquery === isSubquery).map(({ name }) => name));
  const scopes = { ok: true, tables: named(true), values: named(false) } as const;
  const [twice] = scopes.tables.intersection(scopes.values);
  return twice === undefined
    ? scopes
    : { ok: false, detail: `WITH gives ${twice} to a query and to a value` };
}

/** Every use of a name is compared with every definition. */
const maxNames = 200;

/**
 * For each token the index of the bracket that is open around it (-1 for none); for each opening bracket its end and the
 * first FROM in it.
 */
type Groups = {
  readonly opener: readonly number[];
  readonly end: ReadonlyMap<number, number>;
  readonly from: ReadonlyMap<number, number>;
};

/**
 * From `start` up to `end` the name holds, except between `from` and `to`, where it is being defined. There it only holds
 * when WITH is RECURSIVE, in the members of the UNION behind the first, from `again` on, and not in a subquery of theirs.
 */
type Definition = {
  readonly name: string;
  readonly isSubquery: boolean;
  readonly body: number;
  readonly again: number;
  readonly group: number;
  readonly start: number;
  readonly end: number;
  readonly from: number;
  readonly to: number;
};

function groupsOf(tokens: readonly Token[]): Groups {
  const opener: number[] = [];
  const end = new Map([[-1, tokens.length]]);
  const from = new Map<number, number>();
  const open = [-1];
  for (const [at, token] of tokens.entries()) {
    if (isSymbol(token, ')') || isSymbol(token, ']')) end.set(open.pop() ?? -1, at);
    const group = open.at(-1) ?? -1;
    opener.push(group);
    if (isWord(token, 'FROM') && !from.has(group)) from.set(group, at);
    if (isSymbol(token, '(') || isSymbol(token, '[')) open.push(at);
  }
  return { opener, end, from };
}

function definitions(tokens: readonly Token[], groups: Groups): Definition[] {
  return tokens.flatMap((token, at) => {
    const isClause =
      isWord(token, 'WITH') && !isWord(tokens[at + 1], 'TOTALS', 'ROLLUP', 'CUBE', 'FILL', 'TIES');
    return isClause ? clauseDefinitions(tokens, groups, at) : [];
  });
}

/**
 * A WITH at the start of a query or of a bracket also holds for the further members of its UNION, another one only up to
 * the next of them.
 */
function clauseDefinitions(tokens: readonly Token[], groups: Groups, start: number): Definition[] {
  const group = groups.opener[start] ?? -1;
  const groupEnd = groups.end.get(group) ?? tokens.length;
  const isBeside = (at: number, ...keywords: string[]): boolean =>
    groups.opener[at] === group && isWord(tokens[at], ...keywords);
  let end = start + 1;
  const isFirst = start === group + 1;
  while (end < groupEnd && (isFirst || !isBeside(end, 'UNION', 'EXCEPT', 'INTERSECT'))) end += 1;
  const isRecursive = isWord(tokens[start + 1], 'RECURSIVE');
  const found: Definition[] = [];
  let from = isRecursive ? start + 2 : start + 1;
  for (let at = from; at <= end; at += 1) {
    const isLast = at === end || isBeside(at, 'SELECT');
    if (!isLast && !(groups.opener[at] === group && isSymbol(tokens[at], ','))) continue;
    const element = elementOf(tokens, groups, from, at);
    if (element !== undefined) {
      const again = isRecursive && element.isSubquery ? secondMember(tokens, groups, element.body) : at;
      found.push({ ...element, group, start, end, from, to: at, again });
    }
    if (isLast) break;
    from = at + 1;
  }
  return found;
}

/** `name [(columns)] AS [MATERIALIZED] (…)`, or an expression that ends with `AS name`. */
function elementOf(
  tokens: readonly Token[],
  groups: Groups,
  from: number,
  to: number,
): { readonly name: string; readonly isSubquery: boolean; readonly body: number } | undefined {
  const first = tokens[from];
  const as = isSymbol(tokens[from + 1], '(') ? (groups.end.get(from + 1) ?? to) + 1 : from + 1;
  const body = isWord(tokens[as + 1], 'MATERIALIZED') ? as + 2 : as + 1;
  const isSubquery = isName(first) && isWord(tokens[as], 'AS') && groups.end.get(body) === to - 1;
  const name = isSubquery ? first.value : isWord(tokens[to - 2], 'AS') ? nameOf(tokens[to - 1]) : '';
  return plainName.test(name) ? { name, isSubquery, body } : undefined;
}

/** The first UNION in the brackets that open at `body`, or their end. */
function secondMember(tokens: readonly Token[], groups: Groups, body: number): number {
  const end = groups.end.get(body) ?? tokens.length;
  for (let at = body + 1; at < end; at += 1) {
    if (groups.opener[at] === body && isWord(tokens[at], 'UNION')) return at;
  }
  return end;
}

/** A string can name a table as well. */
function nameOf(token: Token | undefined): string {
  if (token?.kind === 'string') return token.text.slice(1, -1);
  return isName(token) ? token.value : '';
}

/** True where a table can be named: behind FROM, JOIN and IN, and in any list that could belong to one of them. */
function mayBeTable(tokens: readonly Token[], groups: Groups, at: number): boolean {
  const before = tokens[at - 1];
  if (isSymbol(tokens[at + 1], '.') || isSymbol(before, '.')) return false;
  if (isWord(before, 'FROM', 'JOIN', 'IN', 'ONLY')) return true;
  if (!isSymbol(before, '(') && !isSymbol(before, ',')) return false;
  const group = groups.opener[at] ?? -1;
  if ((groups.from.get(group) ?? at) < at) return true;
  const opens = tokens[group - 1];
  if (isName(opens) && membership.has(opens.value.toLowerCase())) return true;
  return isWord(opens, 'FROM', 'JOIN') || isSymbol(opens, ',') || isSymbol(opens, '(');
}

/** A `view(…)` does not know the names around it. */
function holdsAt(tokens: readonly Token[], groups: Groups, definition: Definition, at: number): boolean {
  if (at < definition.start || at >= definition.end || (at >= definition.from && at < definition.to))
    return false;
  for (let group = groups.opener[at] ?? -1; group !== definition.group; group = groups.opener[group] ?? -1) {
    const opens = tokens[group - 1];
    if (group === -1 || (isName(opens) && opens.value.toLowerCase() === 'view')) return false;
  }
  return true;
}
