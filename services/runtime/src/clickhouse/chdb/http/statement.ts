/** Says what a query is, as far as the HTTP front must know: who answers it, in which format, and where data begins. */

import { exceptions } from './httpErrors.ts';
import { type SqlToken, sqlTokens } from './sqlTokens.ts';

/** An INSERT whose rows follow its text. Positions are bytes of the body. */
export interface DataInsert {
  kind: 'dataInsert';
  /** `INSERT INTO t (a, b)`, without SETTINGS, FORMAT or VALUES. */
  targetEnd: number;
  /** What is between SETTINGS and FORMAT or VALUES: `a=1, b='x'`. */
  settings: { start: number; end: number } | undefined;
  format: string;
  dataStart: number;
}

export interface PlainStatement {
  /** `select`: rows, perhaps many; `report`: some rows (SHOW, DESCRIBE, …); `write`: everything else. */
  kind: 'select' | 'report' | 'write';
  /** The FORMAT clause that the text itself has: its name, and where it starts and ends. */
  format: { name: string; start: number; end: number } | undefined;
  /** Behind the last word, before semicolons and comments. */
  end: number;
}

export type Statement = DataInsert | PlainStatement | { kind: 'empty' } | { kind: 'incomplete' };

/**
 * Looks at the beginning of a query (latin1, so that a character is a byte).
 * `incomplete`: more of the body is needed to tell; never answered when `isWhole`.
 * @throws ClickHouseException for what a ClickHouse server refuses over HTTP: several statements, INFILE, OUTFILE.
 */
export function readStatement(text: string, isWhole: boolean): Statement {
  const tokens = sqlTokens(text);
  const first = tokens.next().value;
  if (first === undefined) return isWhole ? { kind: 'empty' } : { kind: 'incomplete' };
  if (first.text === 'INSERT') {
    const insert = readInsert(text, isWhole);
    if (insert !== undefined) return insert;
  }
  if (!isWhole) return { kind: 'incomplete' };
  return readPlain(text);
}

/** The head of an INSERT with data; undefined when it is one without (INSERT … SELECT). */
function readInsert(text: string, isWhole: boolean): Statement | undefined {
  const incomplete = isWhole ? undefined : ({ kind: 'incomplete' } as const);
  const walk = new Walk(text);
  walk.take('INSERT');
  walk.take('INTO');
  const isFunction = walk.take('FUNCTION');
  if (!isFunction) walk.take('TABLE');
  walk.skipName();
  if (isFunction) walk.skipParentheses();
  let targetEnd = walk.position;
  let settings: { start: number; end: number } | undefined;
  for (let token = walk.next(); token !== undefined; token = walk.next()) {
    if (token.text === 'SETTINGS') settings = { start: token.end, end: token.end };
    if (token.text === '(' && ['SELECT', 'WITH'].includes(walk.peek()?.text ?? '')) return undefined;
    if (token.text === '(') walk.skipRestOfParentheses();
    if (token.text === 'SELECT' || token.text === 'WITH') return undefined;
    if (token.text === 'INFILE') throw infileRefused();
    if (token.text === 'VALUES' && !isAssigned(walk)) {
      return finished({ kind: 'dataInsert', targetEnd, settings, format: 'Values', dataStart: token.end });
    }
    if (token.text === 'FORMAT' && !isAssigned(walk)) {
      const name = walk.next();
      if (name === undefined) break;
      return readFormatAndData(text, isWhole, { targetEnd, settings, name });
    }
    if (settings === undefined) targetEnd = walk.position;
    else settings.end = walk.position;
  }
  return incomplete;

  function finished(insert: DataInsert): Statement {
    return insert.dataStart < text.length || isWhole ? insert : { kind: 'incomplete' };
  }
}

/** Data starts behind the format's name, blanks and one line feed (`ParserInsertQuery`), SETTINGS may come between. */
function readFormatAndData(
  text: string,
  isWhole: boolean,
  head: { targetEnd: number; settings: DataInsert['settings']; name: SqlToken },
): Statement {
  const after =
    /\s+SETTINGS\s+(?<list>\w+\s*=\s*(?:'(?:[^'\\]|\\.)*'|[\w.+-]+)(?:\s*,\s*\w+\s*=\s*(?:'(?:[^'\\]|\\.)*'|[\w.+-]+))*)/iy;
  after.lastIndex = head.name.end;
  const listed = after.exec(text);
  let settings = head.settings;
  let end = head.name.end;
  if (listed !== null) {
    end = after.lastIndex;
    settings = { start: end - (listed.groups?.['list']?.length ?? 0), end };
  }
  const blanks = /[ \t\f]*(?<semicolon>;)?\r?\n?/y;
  blanks.lastIndex = end;
  // Before the line feed only: behind it are data, whose first byte may be any, a semicolon's too.
  if (blanks.exec(text)?.groups?.['semicolon'] !== undefined) {
    throw exceptions.syntax("You have excessive ';' symbol before data for INSERT.");
  }
  const dataStart = blanks.lastIndex;
  if (dataStart >= text.length && !isWhole) return { kind: 'incomplete' };
  const format = text.slice(head.name.start, head.name.end);
  return { kind: 'dataInsert', targetEnd: head.targetEnd, settings, format, dataStart };
}

/** One pass that keeps no tokens: an IN list can hold millions. */
function readPlain(text: string): PlainStatement {
  let verb = '';
  let previous: SqlToken | undefined;
  let hasEnded = false;
  let format: FormatClause | undefined;
  for (const token of sqlTokens(text)) {
    if (token.text === ';') {
      hasEnded = true;
      continue;
    }
    if (hasEnded) throw exceptions.syntax('Syntax error (Multi-statements are not allowed).');
    if (verb === '' && token.text !== '(') verb = token.text;
    if (token.text === 'OUTFILE' && previous?.text === 'INTO') {
      throw exceptions.notImplemented('INTO OUTFILE is not allowed over HTTP.');
    }
    if (token.text === 'INFILE' && verb === 'INSERT') throw infileRefused();
    if (token.text === '(' && previous?.text === 'INPUT' && verb === 'INSERT') {
      throw exceptions.notImplemented('The embedded ClickHouse does not take data through input().');
    }
    format = trailingFormat(format, previous, token);
    previous = token;
  }
  return {
    kind: SELECTS.has(verb) ? 'select' : REPORTS.has(verb) ? 'report' : 'write',
    format: format && {
      name: text.slice(format.name.start, format.name.end),
      start: format.start,
      end: format.name.end,
    },
    end: previous?.end ?? 0,
  };
}

interface FormatClause {
  start: number;
  name: SqlToken;
  /** SETTINGS came behind it, so that whatever follows does not take it back. */
  isSettled: boolean;
}

/**
 * The name in `… FORMAT name` or `… FORMAT name SETTINGS …` if the text ends with that; a column that is called
 * `format` is followed by something else, and then it was none.
 */
function trailingFormat(
  sofar: FormatClause | undefined,
  previous: SqlToken | undefined,
  token: SqlToken,
): FormatClause | undefined {
  if (previous?.text === 'FORMAT' && token.kind === 'word' && token.text !== 'SETTINGS') {
    return { start: previous.start, name: token, isSettled: false };
  }
  if (sofar === undefined || sofar.isSettled) return sofar;
  return token.text === 'SETTINGS' ? { ...sofar, isSettled: true } : undefined;
}

function isAssigned(walk: Walk): boolean {
  return walk.peek()?.text === '=';
}

function infileRefused(): Error {
  return exceptions.notImplemented('INFILE is read by clients, not by the server.');
}

const SELECTS = new Set(['SELECT', 'WITH', 'FROM']);
const REPORTS = new Set(['SHOW', 'DESCRIBE', 'DESC', 'EXISTS', 'EXPLAIN', 'CHECK', 'KILL']);

/** A cursor over tokens with one of look-ahead. */
class Walk {
  position = 0;
  readonly #tokens: Generator<SqlToken>;
  #ahead: SqlToken | undefined;

  constructor(text: string) {
    this.#tokens = sqlTokens(text);
  }

  peek(): SqlToken | undefined {
    if (this.#ahead === undefined) {
      const result = this.#tokens.next();
      this.#ahead = result.done ? undefined : result.value;
    }
    return this.#ahead;
  }

  next(): SqlToken | undefined {
    const token = this.peek();
    this.#ahead = undefined;
    if (token !== undefined) this.position = token.end;
    return token;
  }

  take(word: string): boolean {
    if (this.peek()?.text !== word) return false;
    this.next();
    return true;
  }

  skipName(): void {
    this.next();
    while (this.take('.')) this.next();
  }

  skipParentheses(): void {
    if (this.take('(')) this.skipRestOfParentheses();
  }

  skipRestOfParentheses(): void {
    for (let depth = 1; depth > 0; ) {
      const token = this.next();
      if (token === undefined) return;
      if (token.text === '(') depth += 1;
      if (token.text === ')') depth -= 1;
    }
  }
}
