/**
 * Cuts a question into tokens, stricter than the engine does, and writes them down again: what reaches the engine is
 * this text with one space between any two tokens, never the text that came in. So a comment, a quote or a line end
 * that the engine would read in another way than we do has no way to it.
 */

/** `text` is what is sent; `value` is the name for a quoted name, else the same. */
export type Token = {
  readonly kind: 'word' | 'quoted' | 'string' | 'number' | 'symbol';
  readonly text: string;
  readonly value: string;
};

export type Lexed =
  | { readonly ok: true; readonly tokens: readonly Token[] }
  | { readonly ok: false; readonly detail: string };

/** The engine itself reads 262,144 bytes of a query by default. */
export const maxQueryChars = 100_000;
/** Deeper nesting only exercises the parser's stack. */
export const maxNesting = 100;

export function lex(query: string): Lexed {
  if (query.length > maxQueryChars) return refuse(`a query is at most ${maxQueryChars} characters long`);
  if (!query.isWellFormed()) return refuse('the query is not well-formed Unicode');
  // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is looked for
  if (/[\0-\x08\x0b\x0c\x0e-\x1f\x7f]/.test(query)) return refuse('control characters are not allowed');
  const tokens: Token[] = [];
  let at = 0;
  while (at < query.length) {
    const next = readToken(query, at, tokens.at(-1));
    if (typeof next === 'string') return refuse(next);
    if (next.token !== undefined) tokens.push(next.token);
    at = next.end;
  }
  while (isSymbol(tokens.at(-1), ';')) tokens.pop();
  if (tokens.length === 0) return refuse('the query is empty');
  if (tokens.some((token) => isSymbol(token, ';'))) return refuse('one statement only');
  return nestingFault(tokens) ?? { ok: true, tokens };
}

/** The text for the engine. */
export function serialise(tokens: readonly Token[]): string {
  return tokens.map((token) => token.text).join(' ');
}

export function isSymbol(token: Token | undefined, text: string): boolean {
  return token?.kind === 'symbol' && token.text === text;
}

/** A bare word in any case; a quoted name is never a keyword. */
export function isWord(token: Token | undefined, ...keywords: readonly string[]): boolean {
  return token?.kind === 'word' && keywords.includes(token.text.toUpperCase());
}

export function isName(token: Token | undefined): token is Token & { readonly kind: 'word' | 'quoted' } {
  return token?.kind === 'word' || token?.kind === 'quoted';
}

type Step = { readonly token?: Token; readonly end: number };

/** The longest come first. `?` and `:` are the ternary operator, `.:` and `.^` sub-columns, which need no glue. */
const symbols = [
  '<=>', '->', '::', '||', '<=', '>=', '<>', '!=', '==',
  '(', ')', '[', ']', ',', '.', '+', '-', '*', '/', '%', '=', '<', '>', '?', ':', '^', ';',
]; // biome-ignore format: one list, longest first

const whitespace = /[ \t\r\n]+/y;
const word = /[A-Za-z_][A-Za-z0-9_]*/y;
const number =
  /(?:0[xX][0-9a-fA-F_]+(?:\.[0-9a-fA-F]*)?(?:[pP][+-]?\d+)?|0[bB][01_]+|(?:\d[\d_]*(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)/y;
const tupleIndex = /\d+/y;
const binaryLiteral = /(?:[xX]'[0-9a-fA-F]*'|[bB]'[01]*')/y;
const string = /'(?:[^'\\]|\\.|'')*'/sy;
const quotedName = /`[^`\\"\r\n\t]*`|"[^"\\`\r\n\t]*"/y;

function readToken(query: string, at: number, before: Token | undefined): Step | string {
  const blank = match(whitespace, query, at);
  if (blank !== undefined) return { end: at + blank.length };
  if (query.startsWith('--', at)) return { end: lineEnd(query, at) };
  if (query.startsWith('/*', at)) return blockComment(query, at);
  const binary = match(binaryLiteral, query, at);
  if (binary !== undefined) return step('string', binary, at);
  if (/['`"]/.test(query.charAt(at))) return readQuoted(query, at);
  const name = match(word, query, at);
  if (name !== undefined) return step('word', name, at);
  return readNumber(query, at, before) ?? readSymbol(query, at);
}

function match(pattern: RegExp, query: string, at: number): string | undefined {
  pattern.lastIndex = at;
  return pattern.exec(query)?.[0];
}

function lineEnd(query: string, at: number): number {
  const end = query.indexOf('\n', at);
  return end === -1 ? query.length : end;
}

function blockComment(query: string, at: number): Step | string {
  const end = query.indexOf('*/', at + 2);
  return end === -1 ? 'a comment is not closed' : { end: end + 2 };
}

function step(kind: Token['kind'], text: string, at: number, value = text): Step {
  return { token: { kind, text, value }, end: at + text.length };
}

function readQuoted(query: string, at: number): Step | string {
  if (query.charAt(at) === "'") {
    const text = match(string, query, at);
    return text === undefined ? 'a string is not closed' : step('string', text, at);
  }
  const text = match(quotedName, query, at);
  if (text === undefined)
    return 'a quoted name has to be closed and may not hold quotes, backslashes or line ends';
  const value = text.slice(1, -1);
  if (value === '' || value.length > 200) return 'a quoted name has 1 to 200 characters';
  return { token: { kind: 'quoted', text: `\`${value}\``, value }, end: at + text.length };
}

/** After a name, a bracket or a number a point starts the index of a tuple, as it does for the engine. */
function readNumber(query: string, at: number, before: Token | undefined): Step | string | undefined {
  if (isSymbol(before, '.') && /\d/.test(query.charAt(at))) {
    return step('number', match(tupleIndex, query, at) ?? '', at);
  }
  if (query.charAt(at) === '.' && endsOperand(before)) return undefined;
  const text = match(number, query, at);
  if (text === undefined) return undefined;
  if (/[A-Za-z_]/.test(query.charAt(at + text.length)))
    return `"${query.slice(at, at + 20)}" is not a number`;
  return step('number', text, at);
}

function endsOperand(token: Token | undefined): boolean {
  return isName(token) || token?.kind === 'number' || isSymbol(token, ')') || isSymbol(token, ']');
}

function readSymbol(query: string, at: number): Step | string {
  const symbol = symbols.find((text) => query.startsWith(text, at));
  if (symbol !== undefined) return step('symbol', symbol, at);
  const char = String.fromCodePoint(query.codePointAt(at) ?? 0);
  if (char === '{' || char === '}')
    return 'query parameters ({name:Type}) are not supported: write the value itself';
  if (char === '$') return 'heredocs and names with $ are not allowed';
  return `the character ${char} is not allowed outside of quotes`;
}

function nestingFault(tokens: readonly Token[]): Lexed | undefined {
  const open: string[] = [];
  for (const token of tokens) {
    if (token.kind !== 'symbol') continue;
    if (token.text === '(') open.push(')');
    if (token.text === '[') open.push(']');
    if (open.length > maxNesting) return refuse(`brackets nest at most ${maxNesting} deep`);
    if ((token.text === ')' || token.text === ']') && open.pop() !== token.text) {
      return refuse('the brackets do not match');
    }
  }
  return open.length === 0 ? undefined : refuse('the brackets do not match');
}

function refuse(detail: string): { readonly ok: false; readonly detail: string } {
  return { ok: false, detail };
}
