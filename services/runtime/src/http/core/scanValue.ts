/**
 * Scans JSON values (RFC 8259) in the bytes of a request body. This code reads every byte that a game sends. Measured: function
 * calls in the loops of `skipValue` make the scan half as fast, and imported constants make the scan a fifth slower.
 */

export type ValueKind = 'object' | 'array' | 'string' | 'number' | 'boolean' | 'null';

/** Result of scanning invalid JSON. `failedAt` and `detail` of the scanner then describe the error. */
export const FAILED = -1;

/** Scans a request body in valid UTF-8. The methods return the position after the scanned text, or `FAILED`. */
export class JsonBytes {
  readonly body: Buffer;
  readonly end: number;
  /** Position of the invalid byte. Set after a method has returned `FAILED`. */
  failedAt = 0;
  /** Reason why the JSON is invalid. The reason never contains text of the body, because the reason is logged. */
  detail = '';
  /** Nesting depth of the value that `skipValue` scanned most recently. A scalar has the depth 0. */
  depth = 0;
  /** Position of the last quote in the body. A scan of a string stops there, because no string ends later. */
  private readonly lastQuote: number;

  constructor(body: Buffer) {
    this.body = body;
    this.end = body.length;
    this.lastQuote = body.lastIndexOf(QUOTE);
  }

  /** Returns the byte at `i`, or 0 after the end. Reads outside of the buffer would make compiled code much slower. */
  at(i: number): number {
    return i < this.end ? (this.body[i] ?? 0) : 0;
  }

  fail(i: number, detail: string): number {
    this.failedAt = i;
    this.detail = i < this.end ? detail : 'the document ends too early';
    return FAILED;
  }

  skipSpace(i: number): number {
    const { body, end } = this;
    while (i < end && IS_SPACE[body[i] ?? 0] === 1) i++;
    return i;
  }

  skipName(i: number): number {
    if (this.at(i) !== QUOTE) return this.fail(i, 'a name in quotes was expected');
    return this.skipCharacters(i + 1);
  }

  /** Scans a string from a position after its opening quote to its end. The position must not be inside an escape. */
  skipCharacters(i: number): number {
    const { body, lastQuote } = this;
    while (i <= lastQuote) {
      while (IS_PLAIN[body[i] ?? 0] === 1) i++;
      const byte = body[i];
      if (byte === QUOTE) return i + 1;
      if (byte !== BACKSLASH) return this.fail(i, 'a string contains a control character');
      i = this.skipEscape(i + 1);
      if (i === FAILED) return FAILED;
    }
    return this.fail(this.end, '');
  }

  skipPlainAscii(i: number): number {
    const { body, end } = this;
    while (i < end && IS_PLAIN_ASCII[body[i] ?? 0] === 1) i++;
    return i;
  }

  skipColon(i: number): number {
    i = this.skipSpace(i);
    return this.at(i) === COLON ? this.skipSpace(i + 1) : this.fail(i, 'a colon was expected');
  }

  /**
   * Scans a value without recursion, so that 8 MiB of `[` cannot overflow the stack. The bits of `isObject` and `outer`
   * describe the open brackets: 1 is an object, and 0 is an array.
   */
  // biome-ignore lint/complexity/noExcessiveLinesPerFunction: function calls in the loops made this function half as fast.
  skipValue(i: number): number {
    const { body, end, lastQuote } = this;
    let isObject = 0;
    let outer: number[] | undefined;
    let depth = 0;
    let deepest = 0;
    let isName = false;
    let byte = i < end ? (body[i] ?? 0) : 0;
    for (;;) {
      if (byte === QUOTE) {
        i++;
        for (;;) {
          if (i > lastQuote) return this.fail(end, '');
          while (IS_PLAIN[body[i] ?? 0] === 1) i++;
          byte = body[i] ?? 0;
          if (byte === QUOTE) break;
          if (byte !== BACKSLASH) return this.fail(i, 'a string contains a control character');
          i = this.skipEscape(i + 1);
          if (i === FAILED) return FAILED;
        }
        i++;
        byte = i < end ? (body[i] ?? 0) : 0;
        if (isName) {
          while (byte <= SPACE && IS_SPACE[byte] === 1) byte = ++i < end ? (body[i] ?? 0) : 0;
          if (byte !== COLON) return this.fail(i, 'a colon was expected');
          byte = ++i < end ? (body[i] ?? 0) : 0;
          while (byte <= SPACE && IS_SPACE[byte] === 1) byte = ++i < end ? (body[i] ?? 0) : 0;
          isName = false;
          continue;
        }
      } else if (isName) {
        return this.fail(i, 'a name in quotes was expected');
      } else if (IS_DIGIT[byte] === 1 || byte === MINUS) {
        if (byte === MINUS) byte = ++i < end ? (body[i] ?? 0) : 0;
        if (byte === ZERO) byte = ++i < end ? (body[i] ?? 0) : 0;
        else if (IS_DIGIT[byte] !== 1) return this.fail(i, 'a digit was expected');
        else while (IS_DIGIT[byte] === 1) byte = ++i < end ? (body[i] ?? 0) : 0;
        if (byte === DOT) {
          byte = ++i < end ? (body[i] ?? 0) : 0;
          if (IS_DIGIT[byte] !== 1) return this.fail(i, 'a digit was expected');
          while (IS_DIGIT[byte] === 1) byte = ++i < end ? (body[i] ?? 0) : 0;
        }
        if ((byte | LOWER) === LOWER_E) {
          byte = ++i < end ? (body[i] ?? 0) : 0;
          if (byte === PLUS || byte === MINUS) byte = ++i < end ? (body[i] ?? 0) : 0;
          if (IS_DIGIT[byte] !== 1) return this.fail(i, 'a digit was expected');
          while (IS_DIGIT[byte] === 1) byte = ++i < end ? (body[i] ?? 0) : 0;
        }
      } else if (byte === OPEN_OBJECT || byte === OPEN_ARRAY) {
        depth++;
        if (depth > deepest) deepest = depth;
        if ((depth & 31) === 0) {
          outer ??= [];
          outer.push(isObject);
        }
        isName = byte === OPEN_OBJECT;
        isObject = (isObject << 1) | (isName ? 1 : 0);
        const close = isName ? CLOSE_OBJECT : CLOSE_ARRAY;
        byte = ++i < end ? (body[i] ?? 0) : 0;
        while (byte <= SPACE && IS_SPACE[byte] === 1) byte = ++i < end ? (body[i] ?? 0) : 0;
        if (byte !== close) continue;
      } else {
        i = this.skipWord(i, byte);
        if (i === FAILED) return FAILED;
        byte = i < end ? (body[i] ?? 0) : 0;
      }

      for (;;) {
        if (depth === 0) {
          this.depth = deepest;
          return i;
        }
        while (byte <= SPACE && IS_SPACE[byte] === 1) byte = ++i < end ? (body[i] ?? 0) : 0;
        isName = (isObject & 1) === 1;
        if (byte === COMMA) {
          byte = ++i < end ? (body[i] ?? 0) : 0;
          while (byte <= SPACE && IS_SPACE[byte] === 1) byte = ++i < end ? (body[i] ?? 0) : 0;
          break;
        }
        if (byte !== (isName ? CLOSE_OBJECT : CLOSE_ARRAY)) {
          return this.fail(i, 'a comma or the end of the object or array was expected');
        }
        isObject = (depth & 31) === 0 ? (outer?.pop() ?? 0) : isObject >>> 1;
        depth--;
        byte = ++i < end ? (body[i] ?? 0) : 0;
      }
    }
  }

  private skipWord(i: number, first: number): number {
    const { body, end } = this;
    const word = first === LOWER_T ? 'true' : first === LOWER_F ? 'false' : 'null';
    const last = Math.min(word.length, end - i);
    let k = 0;
    while (k < last && body[i + k] === word.charCodeAt(k)) k++;
    return k === word.length ? i + k : this.fail(i + k, 'a value was expected');
  }

  private skipEscape(i: number): number {
    const byte = this.at(i);
    if (IS_ESCAPED[byte] === 1) return i + 1;
    if (byte !== LOWER_U) return this.fail(i, 'an escape that JSON does not have');
    for (let k = i + 1; k <= i + 4; k++) {
      if (IS_HEX[this.at(k)] !== 1) return this.fail(k, 'a hexadecimal digit was expected');
    }
    return i + 5;
  }
}

/** Returns the kind of the JSON value that starts with this byte. Does not check whether the value is valid. */
export function kindOf(byte: number): ValueKind {
  switch (byte) {
    case OPEN_OBJECT:
      return 'object';
    case OPEN_ARRAY:
      return 'array';
    case QUOTE:
      return 'string';
    case LOWER_T:
    case LOWER_F:
      return 'boolean';
    case LOWER_N:
      return 'null';
    default:
      return 'number';
  }
}

/** Decodes the string between its quotes. Keeps lone surrogates, like `JSON.parse`. */
export function decodeString(body: Buffer, start: number, end: number): string {
  if (!body.subarray(start, end).includes(BACKSLASH)) return body.toString('utf8', start, end);
  // Uses `JSON.parse`, which is slow but decodes escapes exactly. Escapes are rare.
  const value: unknown = JSON.parse(body.toString('utf8', start - 1, end + 1));
  return String(value);
}

/** Returns the JSON pointer (RFC 6901) of a member. */
export function pointerTo(name: string): string {
  return `/${name.replaceAll('~', '~0').replaceAll('/', '~1')}`;
}

const SPACE = 0x20;
const QUOTE = 0x22;
const PLUS = 0x2b;
const COMMA = 0x2c;
const MINUS = 0x2d;
const DOT = 0x2e;
const ZERO = 0x30;
const COLON = 0x3a;
const OPEN_ARRAY = 0x5b;
const BACKSLASH = 0x5c;
const CLOSE_ARRAY = 0x5d;
const LOWER_E = 0x65;
const LOWER_F = 0x66;
const LOWER_N = 0x6e;
const LOWER_T = 0x74;
const LOWER_U = 0x75;
const OPEN_OBJECT = 0x7b;
const CLOSE_OBJECT = 0x7d;
const LOWER = 0x20;

const IS_SPACE = tableOf(/[ \t\n\r]/);
const IS_DIGIT = tableOf(/[0-9]/);
const IS_HEX = tableOf(/[0-9a-fA-F]/);
const IS_ESCAPED = tableOf(/["\\/bfnrt]/);
const IS_PLAIN_ASCII = tableOf(/[ !#-[\]-\x7f]/);
/** Bytes that can be inside a JSON string without an escape. Includes the bytes of multi-byte characters. */
const IS_PLAIN = tableOf(/[ !#-[\]-\xff]/);

function tableOf(members: RegExp): Uint8Array {
  return Uint8Array.from({ length: 256 }, (_, byte) => (members.test(String.fromCharCode(byte)) ? 1 : 0));
}
