/**
 * What the printed tree does not show, checked on the tokens: SETTINGS, APPLY, INTO OUTFILE, FORMAT, a table's UUID, and
 * any name in front of a bracket that the engine would run. It counts what it has checked, so that the walk over the
 * tree can insist that there is no clause of which this file knows nothing.
 */

import { readsItsArguments } from './selectOnlyArguments.ts';
import { isName, isSymbol, isWord, type Token } from './selectOnlyLexer.ts';
import {
  allowedSettings,
  isAllowedFunction,
  isKnownAsRefused,
  isRefusedFunction,
} from './selectOnlyPolicy.ts';

export type Clauses =
  | { readonly ok: true; readonly settings: number; readonly applies: number }
  | { readonly ok: false; readonly detail: string };

export function checkClauses(tokens: readonly Token[]): Clauses {
  let settings = 0;
  let applies = 0;
  for (const at of tokens.keys()) {
    const fault = forbidden(tokens, at) ?? settingsFault(tokens, at) ?? applyFault(tokens, at);
    if (fault !== undefined) return { ok: false, detail: fault };
    if (startsSettings(tokens, at)) settings += 1;
    if (startsApply(tokens, at)) applies += 1;
  }
  return { ok: true, settings, applies };
}

function forbidden(tokens: readonly Token[], at: number): string | undefined {
  const token = tokens[at];
  const next = tokens[at + 1];
  if (isWord(token, 'INTO') && isWord(next, 'OUTFILE')) return 'INTO OUTFILE is not allowed';
  if (isWord(token, 'FORMAT') && isName(next) && !isSymbol(tokens[at - 1], '.')) {
    const clause = at + 2 === tokens.length || isWord(tokens[at + 2], 'SETTINGS', 'INTO');
    if (clause) return 'FORMAT is not allowed: the answer is in the format JSON';
  }
  if (isWord(token, 'UUID') && next?.kind === 'string') return 'a table may not be named by its UUID';
  if (isName(token) && isSymbol(next, '(') && isKnownAsRefused(token.value)) {
    const isTable = isWord(tokens[at - 1], 'FROM', 'JOIN', 'FUNCTION') || !isRefusedFunction(token.value);
    return `the ${isTable ? 'table function' : 'function'} ${token.value} is not allowed`;
  }
  return undefined;
}

function startsSettings(tokens: readonly Token[], at: number): boolean {
  return isWord(tokens[at], 'SETTINGS') && tokens[at + 1]?.kind === 'word' && isSymbol(tokens[at + 2], '=');
}

/** `SETTINGS name = value, …`; the engine applies them even for EXPLAIN AST, so this comes before it. */
function settingsFault(tokens: readonly Token[], start: number): string | undefined {
  if (!isWord(tokens[start], 'SETTINGS')) return undefined;
  if (tokens[start + 1]?.kind === 'quoted') return 'the name of a setting is not quoted';
  if (!startsSettings(tokens, start)) return undefined;
  for (let at = start + 1; ; ) {
    const name = tokens[at];
    if (name?.kind !== 'word' || !isSymbol(tokens[at + 1], '=')) return 'SETTINGS takes name = value pairs';
    if (!allowedSettings.has(name.text)) return `the setting ${name.text} is not allowed`;
    const value = isSymbol(tokens[at + 2], '-') ? at + 3 : at + 2;
    const kind = tokens[value]?.kind;
    if (kind !== 'number' && kind !== 'string' && !isWord(tokens[value], 'TRUE', 'FALSE')) {
      return `the value of the setting ${name.text} is a number or a string`;
    }
    if (!isSymbol(tokens[value + 1], ',')) return undefined;
    at = value + 2;
  }
}

function startsApply(tokens: readonly Token[], at: number): boolean {
  if (!isWord(tokens[at], 'APPLY')) return false;
  const next = tokens[at + 1];
  return (
    isSymbol(next, '(') || (isName(next) && !isWord(next, 'FROM', 'AS', 'WHERE', 'GROUP', 'ORDER', 'LIMIT'))
  );
}

/** `APPLY name`, `APPLY(name)`, `APPLY(name(0.5))` and `APPLY(x -> …)`: none of it is in the printed tree. */
function applyFault(tokens: readonly Token[], at: number): string | undefined {
  if (!startsApply(tokens, at)) return undefined;
  if (!isSymbol(tokens[at + 1], '(')) {
    const name = tokens[at + 1]?.value ?? '';
    if (isSymbol(tokens[at + 2], '(') || isSymbol(tokens[at + 2], '->'))
      return 'put brackets around what APPLY applies';
    return applied(name) ? undefined : `the function ${name} is not allowed in APPLY`;
  }
  const inside = tokens.slice(at + 2, closing(tokens, at + 1));
  const lambda = inside.some((token) => isSymbol(token, '->'));
  for (const [index, token] of inside.entries()) {
    if (isWord(token, 'SELECT', 'WITH', 'IN', 'APPLY', 'OVER', 'FROM'))
      return `${token.text} is not allowed in APPLY`;
    const called = isSymbol(inside[index + 1], '(') || (index === 0 && !lambda);
    if (called && isName(token) && !applied(token.value) && !isOperator(token)) {
      return `the function ${token.value} is not allowed in APPLY`;
    }
  }
  return undefined;
}

/** The arguments of a function that reads them as a declaration cannot be looked at here. */
function applied(name: string): boolean {
  return isAllowedFunction(name) && !readsItsArguments(name);
}

function isOperator(token: Token): boolean {
  return isWord(
    token,
    'AND',
    'OR',
    'NOT',
    'BETWEEN',
    'LIKE',
    'ILIKE',
    'WHEN',
    'THEN',
    'ELSE',
    'CASE',
    'AS',
    'DIV',
    'MOD',
  );
}

function closing(tokens: readonly Token[], open: number): number {
  let depth = 0;
  for (let at = open; at < tokens.length; at += 1) {
    if (isSymbol(tokens[at], '(')) depth += 1;
    if (isSymbol(tokens[at], ')')) depth -= 1;
    if (depth === 0) return at;
  }
  return tokens.length;
}
