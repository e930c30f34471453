/** Splits SQL into tokens. */

const TOKEN =
  /\s*(?:(?<text>'(?:[^'\\]|\\.)*')|(?<number>\d+)|(?<param>\{\w+:[^}]+\})|(?<word>[A-Za-z_]\w*)|(?<sign>->|!=|<=|>=|[-(),.=<>*/+%]))/gy;

interface Token {
  readonly kind: 'text' | 'number' | 'param' | 'word' | 'sign';
  readonly text: string;
}

export class Tokens {
  readonly #sql: string;
  readonly #tokens: readonly Token[];
  #at = 0;

  constructor(sql: string) {
    this.#sql = sql;
    this.#tokens = tokensOf(sql);
  }

  isNext(text: string): boolean {
    return this.#tokens[this.#at]?.text === text;
  }

  take(text: string): boolean {
    const isNext = this.isNext(text);
    if (isNext) this.#at++;
    return isNext;
  }

  takeBoth(first: string, second: string): boolean {
    const isNext = this.take(first);
    if (isNext) this.expect(second);
    return isNext;
  }

  takeAny(texts: readonly string[]): string | undefined {
    return texts.find((text) => this.take(text));
  }

  expect(text: string): void {
    if (!this.take(text)) throw this.#unknown(`instead of ${text}`);
  }

  expectEnd(): void {
    if (this.#at < this.#tokens.length) throw this.#unknown('at the end');
  }

  skipRest(): void {
    this.#at = this.#tokens.length;
  }

  identifier(): string {
    const token = this.#tokens[this.#at];
    if (token?.kind !== 'word') throw this.#unknown('instead of a name');
    this.#at++;
    return token.text;
  }

  literal(): { readonly value: unknown } | undefined {
    const token = this.#tokens[this.#at];
    if (token?.kind !== 'text' && token?.kind !== 'number') return undefined;
    this.#at++;
    if (token.kind === 'number') return { value: Number(token.text) };
    return { value: token.text.slice(1, -1).replaceAll(/\\(.)/g, '$1') };
  }

  /** `{name:Type}` */
  param(): { readonly name: string; readonly type: string } | undefined {
    const token = this.#tokens[this.#at];
    if (token?.kind !== 'param') return undefined;
    this.#at++;
    const colon = token.text.indexOf(':');
    return { name: token.text.slice(1, colon), type: token.text.slice(colon + 1, -1) };
  }

  isLambda(): boolean {
    return this.#tokens[this.#at + 1]?.text === '->';
  }

  skipLambdaHead(): void {
    this.#at += 2;
  }

  #unknown(where: string): Error {
    const rest = this.#tokens.slice(this.#at, this.#at + 8).map(({ text }) => text);
    return new Error(`the simulated ClickHouse does not know ${rest.join(' ')} ${where}, of: ${this.#sql}`);
  }
}

function tokensOf(sql: string): Token[] {
  const tokens: Token[] = [];
  const end = sql.trimEnd().length;
  TOKEN.lastIndex = 0;
  while (TOKEN.lastIndex < end) {
    const from = TOKEN.lastIndex;
    const groups = TOKEN.exec(sql)?.groups;
    const found = Object.entries(groups ?? {}).find(([, text]) => text !== undefined);
    if (found === undefined)
      throw new Error(`the simulated ClickHouse cannot read: ${sql.slice(from, from + 40)}`);
    tokens.push({ kind: found[0] as Token['kind'], text: found[1] ?? '' });
  }
  return tokens;
}
