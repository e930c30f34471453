/**
 * Walks over one JSON value (RFC 8259) in the bytes of a body without building anything from it.
 *
 * This is the hottest code of the service: it looks at every byte a game sends. So it keeps to what compiles well.
 * Positions are plain integers, and a failure is the position -1 with its cause beside it. Every read of a byte lies
 * inside the body, since an engine compiles a read that has once gone past the end far worse. Nothing recurses, so
 * 8 MiB of `[` overflow nothing. `skipValue` is one long function, and the constants are this file's own, because calls
 * in its loops made it half as fast, and constants from another file a fifth slower.
 */

export type ValueKind = 'object' | 'array' | 'string' | 'number' | 'boolean' | 'null';

/** Containers a field's value may nest, its own included. */
export const MAX_DEPTH = 64;

/** Every walking method answers this when the bytes are not JSON; `failedAt` and `detail` then say why. */
export const FAILED = -1;

/**
 * A body being walked over. Every method takes the position to start from and answers the position behind what it
 * walked over, or `FAILED`. The bytes must be valid UTF-8: above 0x7F nothing is looked at.
 */
export class JsonBytes {
  readonly body: Buffer;
  readonly end: number;
  /** Offset of the byte that is not JSON; meaningful after a `FAILED`. */
  failedAt = 0;
  /** A constant phrase that never quotes the body, since problems are logged and answered. */
  detail = '';
  /** How many containers were open at once in the value that `skipValue` walked over last; 0 for a scalar. */
  depth = 0;
  /** No string can close behind this one, so the loop over a string's inside needs no other bound. */
  private readonly lastQuote: number;

  constructor(body: Buffer) {
    this.body = body;
    this.end = body.length;
    this.lastQuote = body.lastIndexOf(QUOTE);
  }

  /** The byte at `i`, 0 behind the end: NUL is legal nowhere in JSON, so one comparison finds both. */
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

  /** From the opening quote of a member's name to behind the closing one. */
  skipName(i: number): number {
    if (this.at(i) !== QUOTE) return this.fail(i, 'a name in quotes was expected');
    return this.skipCharacters(i + 1);
  }

  /** From anywhere inside a string, but not inside an escape, to behind the closing quote. */
  skipCharacters(i: number): number {
    const { body, lastQuote } = this;
    while (i <= lastQuote) {
      while (IS_PLAIN[body[i] ?? 0] === 1) i++;
      const byte = body[i];
      if (byte === QUOTE) return i + 1;
      if (byte !== BACKSLASH) return this.fail(i, 'a control character stands in a string');
      i = this.skipEscape(i + 1);
      if (i === FAILED) return FAILED;
    }
    return this.fail(this.end, '');
  }

  /** Inside a string, to the first byte that is not an ASCII character that means itself, or to the body's end. */
  skipPlainAscii(i: number): number {
    const { body, end } = this;
    while (i < end && IS_PLAIN_ASCII[body[i] ?? 0] === 1) i++;
    return i;
  }

  /** From behind a member's name, over the colon, to its value. */
  skipColon(i: number): number {
    i = this.skipSpace(i);
    return this.at(i) === COLON ? this.skipSpace(i + 1) : this.fail(i, 'a colon was expected');
  }

  /**
   * Any value that starts at `i` itself. `byte` is always the byte at `i`, or 0 behind the end. Of the containers that
   * are open, one bit each says whether it is an object; the bits of every 32 levels further out wait in `outer`.
   */
  // biome-ignore lint/complexity/noExcessiveLinesPerFunction: calls in its loops made it half as fast.
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
          if (byte !== BACKSLASH) return this.fail(i, 'a control character stands in a string');
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

      // Behind a value: everything that closes here is closed, until a comma asks for the next value.
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

  /** From behind the backslash. */
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

/** Tells the kind by the first byte. Where no value starts, the answer means nothing and the scan fails there. */
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

/** `start` and `end` lie inside the quotes. Lone surrogates stay in the answer, as `JSON.parse` leaves them. */
export function decodeString(body: Buffer, start: number, end: number): string {
  if (!body.subarray(start, end).includes(BACKSLASH)) return body.toString('utf8', start, end);
  // Escapes are rare in the envelope; the engine's own decoder cannot differ from what clients know.
  const value: unknown = JSON.parse(body.toString('utf8', start - 1, end + 1));
  return String(value);
}

/** RFC 6901. */
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
/** The bit that makes an ASCII letter a small one. */
const LOWER = 0x20;

const IS_SPACE = tableOf(/[ \t\n\r]/);
const IS_DIGIT = tableOf(/[0-9]/);
const IS_HEX = tableOf(/[0-9a-fA-F]/);
/** What may follow a backslash and is the whole escape. */
const IS_ESCAPED = tableOf(/["\\/bfnrt]/);
/** What means itself inside a string and is one character. */
const IS_PLAIN_ASCII = tableOf(/[ !#-[\]-\x7f]/);
/** The same, and the bytes of longer characters. */
const IS_PLAIN = tableOf(/[ !#-[\]-\xff]/);

/** One look-up a byte: 1 for those whose Latin-1 character matches. */
function tableOf(members: RegExp): Uint8Array {
  return Uint8Array.from({ length: 256 }, (_, byte) => (members.test(String.fromCharCode(byte)) ? 1 : 0));
}
