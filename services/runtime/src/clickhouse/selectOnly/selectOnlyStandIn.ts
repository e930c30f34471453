/**
 * The text that is given to the engine's parser for `EXPLAIN AST`: the same tokens, but with stand-ins for whatever
 * could look like a line of the printed tree, and with marks for what the tree does not say. Strings and names with other
 * than harmless characters are replaced, so every line of the answer is one node and says what the parser saw. The name of
 * a common table expression becomes another one at each of its places, and `name AS (…)` becomes
 * `name AS (SELECT mark FROM (…))`, so the tree tells which name holds where.
 */
import { isName, isSymbol, isWord, type Token } from './selectOnlyLexer.ts';

export type StandIn = {
  readonly tokens: readonly Token[];
  /** What the question wrote at the place of a stand-in, for the sentence that refuses it. */
  nameOf(text: string): string;
  /** The place in the question and the name there, for the stand-in of a name that WITH gives to a subquery. */
  placeOf(name: string): Place | undefined;
};

export type Place = { readonly name: string; readonly isRecursive: boolean };

export function standIn(tokens: readonly Token[]): StandIn {
  const prefix = freePrefix(tokens);
  const bodies = subqueryBodies(tokens);
  const given = new Set([...bodies.keys()].map((at) => tokens[at]?.value ?? ''));
  const places = new Map<string, Place>();
  const odd = new Map<string, string>();
  const replaced: Token[] = [];
  const closers = new Set([...bodies.values()].map(({ end }) => end));
  const openers = new Map([...bodies].map(([at, { start }]) => [start, at]));
  for (const [at, token] of tokens.entries()) {
    if (closers.has(at)) replaced.push(symbol(')'));
    const content = contentOf(token);
    if (given.has(content) && (bodies.has(at) || !isSymbol(tokens[at + 1], '('))) {
      places.set(`${prefix}${at}`, { name: content, isRecursive: isWord(tokens[at - 1], 'RECURSIVE') });
      replaced.push(token.kind === 'string' ? text(`${prefix}${at}`) : quoted(`${prefix}${at}`));
    } else if (token.kind === 'quoted' && !plainName.test(content)) {
      odd.set(`${prefix}${at}`, content);
      replaced.push(quoted(`${prefix}${at}`));
    } else replaced.push(token.kind === 'string' && !harmlessString.test(token.text) ? text('?') : token);
    const marked = openers.get(at);
    if (marked !== undefined) replaced.push(select, quoted(`${prefix}${marked}`), from, symbol('('));
  }
  const stands = new RegExp(`${prefix}\\d+`, 'g');
  return {
    tokens: replaced,
    nameOf: (line) => line.replaceAll(stands, (name) => places.get(name)?.name ?? odd.get(name) ?? name),
    placeOf: (name) => places.get(name),
  };
}

/** What a token names: a string can name a table as well. */
export function contentOf(token: Token): string {
  return token.kind === 'string' ? token.text.slice(1, -1) : token.value;
}

const plainName = /^[A-Za-z_][A-Za-z0-9_]*$/;

/**
 * Types, dates, intervals and names of aggregates are strings whose content the parser or we look at. `'a.b'` stays out,
 * since a string after FROM is a table's name and would print as the table `b` of the database `a`.
 */
const harmlessString = /^'(?!\w+(?:\.\w+)+')[A-Za-z0-9_ .,:;+\-*/%()[\]<>=!?&@#|~^]*'$/;

const select: Token = { kind: 'word', text: 'SELECT', value: 'SELECT' };
const from: Token = { kind: 'word', text: 'FROM', value: 'FROM' };

function symbol(value: string): Token {
  return { kind: 'symbol', text: value, value };
}

function quoted(value: string): Token {
  return { kind: 'quoted', text: `\`${value}\``, value };
}

function text(value: string): Token {
  return { kind: 'string', text: `'${value}'`, value: `'${value}'` };
}

/** A prefix that no token of the question starts with: a stand-in must not be anything that the question can name. */
function freePrefix(tokens: readonly Token[]): string {
  const taken = tokens.map((token) => Number(/^'?quoted(\d{1,9})_/i.exec(token.value)?.[1] ?? -1));
  return `quoted${taken.reduce((most, number) => Math.max(most, number), -1) + 1}_`;
}

type Body = { readonly start: number; readonly end: number };

/** `name [(columns)] AS [MATERIALIZED] (SELECT …)`: the place of each name and the brackets of its body. */
function subqueryBodies(tokens: readonly Token[]): ReadonlyMap<number, Body> {
  const ends = bracketEnds(tokens);
  const bodies = new Map<number, Body>();
  for (const [at, token] of tokens.entries()) {
    const as = isSymbol(tokens[at + 1], '(') ? (ends.get(at + 1) ?? at) + 1 : at + 1;
    if (!isName(token) || !isWord(tokens[as], 'AS')) continue;
    const start = isWord(tokens[as + 1], 'MATERIALIZED') ? as + 2 : as + 1;
    const end = ends.get(start);
    const opens = isWord(tokens[start + 1], 'SELECT', 'WITH') || isSymbol(tokens[start + 1], '(');
    if (end !== undefined && opens) bodies.set(at, { start, end });
  }
  return bodies;
}

function bracketEnds(tokens: readonly Token[]): ReadonlyMap<number, number> {
  const ends = new Map<number, number>();
  const open: number[] = [];
  for (const [at, token] of tokens.entries()) {
    if (isSymbol(token, '(')) open.push(at);
    if (isSymbol(token, ')')) ends.set(open.pop() ?? at, at);
  }
  return ends;
}
