/** Cuts SQL into tokens as ClickHouse's lexer does, as far as strings, names and comments have to be told apart. */

export interface SqlToken {
  kind: 'word' | 'quotedName' | 'string' | 'symbol';
  /** Positions in the text; `end` is exclusive. */
  start: number;
  end: number;
  /** A word in upper case, a symbol as it is, nothing for what is quoted. */
  text: string;
}

/**
 * The tokens of a text in which every character is one byte (latin1), so that positions are positions in the body.
 * A quote or a comment that does not end reaches to the text's end. No regular expression runs over a quoted part:
 * literals can be megabytes long.
 */
export function* sqlTokens(text: string): Generator<SqlToken> {
  for (let start = 0; start < text.length; ) {
    const commentEnd = endOfComment(text, start);
    if (commentEnd !== undefined) {
      start = commentEnd;
      continue;
    }
    const token = tokenAt(text, start);
    if (token !== undefined) yield token;
    start = token?.end ?? start + 1;
  }
}

function endOfComment(text: string, start: number): number | undefined {
  const here = text[start];
  const next = text[start + 1];
  if (here === '/' && next === '*') return endAfter(text, '*/', start + 2);
  const isLine = (here === '-' && next === '-') || (here === '#' && (next === ' ' || next === '!'));
  return isLine ? endAfter(text, '\n', start) : undefined;
}

function tokenAt(text: string, start: number): SqlToken | undefined {
  const here = text[start] ?? '';
  if (BLANK.test(here)) return undefined;
  if (here === "'") return { kind: 'string', start, end: endOfQuoted(text, start), text: '' };
  if (here === '"' || here === '`')
    return { kind: 'quotedName', start, end: endOfQuoted(text, start), text: '' };
  for (const { open, close, kind } of CURLY) {
    if (text.startsWith(open, start))
      return { kind, start, end: endAfter(text, close, start + open.length), text: '' };
  }
  const heredoc = here === '$' ? matchAt(HEREDOC_TAG, text, start) : undefined;
  if (heredoc !== undefined) {
    return { kind: 'string', start, end: endAfter(text, heredoc, start + heredoc.length), text: '' };
  }
  const word = matchAt(WORD, text, start);
  if (word !== undefined) return { kind: 'word', start, end: start + word.length, text: word.toUpperCase() };
  return { kind: 'symbol', start, end: start + 1, text: here };
}

/** Behind the closing quote; a backslash escapes any character, a doubled quote is one quote. */
function endOfQuoted(text: string, start: number): number {
  const quote = text[start];
  for (let at = start + 1; at < text.length; at += 1) {
    if (text[at] === '\\') at += 1;
    else if (text[at] === quote) {
      if (text[at + 1] !== quote) return at + 1;
      at += 1;
    }
  }
  return text.length;
}

function endAfter(text: string, what: string, from: number): number {
  const found = text.indexOf(what, from);
  return found === -1 ? text.length : found + what.length;
}

function matchAt(pattern: RegExp, text: string, start: number): string | undefined {
  pattern.lastIndex = start;
  return pattern.exec(text)?.[0];
}

const BLANK = /[\s\0]/;
const WORD = /[A-Za-z0-9_][A-Za-z0-9_$]*/y;
const HEREDOC_TAG = /\$[A-Za-z0-9_]*\$/y;

/** Curly quotes are quotes to ClickHouse; each is three bytes, so three characters here. */
const CURLY = [
  { open: '\u00e2\u0080\u0098', close: '\u00e2\u0080\u0099', kind: 'string' },
  { open: '\u00e2\u0080\u009c', close: '\u00e2\u0080\u009d', kind: 'quotedName' },
] as const;
