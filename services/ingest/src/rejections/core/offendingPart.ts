/** Finds the part of a request body that has a problem. Returns a short sample of this part, in which secrets are masked. */
import { eachMember } from '@questlog/runtime/http/core/scanObject';
import { decodeString, FAILED, JsonBytes } from '@questlog/runtime/http/core/scanValue';
import { pathOf, type UnknownField } from '@questlog/runtime/http/core/unknownFields';

export interface OffendingPart {
  /** JSON of the body's part that has a problem, truncated to `MAX_SAMPLE_BYTES`. Empty if this part was not found. */
  readonly sample: string;
  /** Type of the event that has the problem. Empty if the type is unknown. */
  readonly eventType: string;
}

export const MAX_SAMPLE_BYTES = 256;
const MAX_TYPE_BYTES = 100;
/** Number of bytes before a sample, and after the sample, that are also searched for secrets. */
const MAX_SECRET_BYTES = 4096;

export class BodyParts {
  readonly #json: JsonBytes;
  readonly #ownToken: string;

  /** @param ownToken access token of the request. Samples of the body show asterisks instead of this token */
  constructor(body: Buffer, ownToken: string) {
    this.#json = new JsonBytes(body);
    this.#ownToken = ownToken;
  }

  /** Returns the field that has a problem. If the field is missing, returns the object that should have the field. */
  at({ index, pointer }: UnknownField): OffendingPart {
    const start = this.#startOf(index);
    if (start === undefined) return this.around(0);
    const path = pathOf(pointer);
    const value = walk(this.#json, start, path);
    const eventType = mask(truncateUtf8(Buffer.from(value.eventType), MAX_TYPE_BYTES), this.#ownToken);
    if (path.some((name) => SECRET_NAME.test(name))) return { sample: MASK, eventType };
    return { sample: this.#shown(value.at, this.#json.skipValue(value.at)), eventType };
  }

  around(offset: number): OffendingPart {
    return { sample: this.#shown(Math.max(0, offset - MAX_SAMPLE_BYTES / 2), this.#json.end), eventType: '' };
  }

  #startOf(index: number): number | undefined {
    const json = this.#json;
    const start = json.skipSpace(0);
    return json.at(start) === OPEN_ARRAY ? elementOf(json, start, index) : start;
  }

  /** Returns a sample with masked secrets. Also searches the text around the sample, because a secret can start there. */
  #shown(start: number, end: number): string {
    const { body } = this.#json;
    const from = Math.max(0, start - MAX_SECRET_BYTES);
    const to = Math.min(end === FAILED ? body.length : end, start + MAX_SAMPLE_BYTES + MAX_SECRET_BYTES);
    // Decodes each byte as one character, so that a position in the text equals the position in the body.
    const text = mask(body.toString('latin1', from, to), this.#ownToken);
    const bytes = Buffer.from(text.slice(start - from), 'latin1');
    const begin = bytes.findIndex((byte) => !isContinuation(byte));
    return truncateUtf8(bytes.subarray(Math.max(0, begin)), MAX_SAMPLE_BYTES);
  }
}

/** Returns the value at a path, or the deepest existing value if the path does not exist. */
function walk(
  json: JsonBytes,
  start: number,
  path: readonly string[],
): { readonly at: number; readonly eventType: string } {
  let at = start;
  let eventType = '';
  for (const step of [...path, undefined]) {
    const isObject = json.at(at) === OPEN_OBJECT;
    const members = isObject ? membersOf(json, at, step) : undefined;
    eventType ||= members?.eventType ?? '';
    const next = isObject ? members?.valueAt : elementOf(json, at, Number(step));
    if (next === undefined) break;
    at = next;
  }
  return { at, eventType };
}

function membersOf(
  json: JsonBytes,
  at: number,
  wanted: string | undefined,
): { readonly valueAt: number | undefined; readonly eventType: string } {
  let valueAt: number | undefined;
  let eventType = '';
  eachMember(json, at, {
    member: (name, memberAt) => {
      const end = json.skipValue(memberAt);
      if (name === wanted) valueAt = memberAt;
      if (name === 'eventType' && json.at(memberAt) === QUOTE && end !== FAILED)
        eventType = decodeString(json.body, memberAt + 1, end - 1);
      return end;
    },
  });
  return { valueAt, eventType };
}

function elementOf(json: JsonBytes, at: number, index: number): number | undefined {
  if (json.at(at) !== OPEN_ARRAY || !Number.isInteger(index)) return undefined;
  let i = json.skipSpace(at + 1);
  for (let n = 0; json.at(i) !== CLOSE_ARRAY; n++) {
    if (n === index) return i;
    const end = json.skipValue(i);
    if (end === FAILED) return undefined;
    i = json.skipSpace(end);
    if (json.at(i) === COMMA) i = json.skipSpace(i + 1);
  }
  return undefined;
}

/** Returns the first bytes of a text. Removes an incomplete character at the end. */
export function truncateUtf8(bytes: Buffer, maxBytes: number): string {
  let end = Math.min(bytes.length, maxBytes);
  while (end > 0 && end < bytes.length && isContinuation(bytes[end] ?? 0)) end--;
  return bytes.toString('utf8', 0, end);
}

function isContinuation(byte: number): boolean {
  return (byte & 0xc0) === 0x80;
}

export function mask(text: string, ownToken = ''): string {
  const withoutOwnToken = ownToken === '' ? text : text.replaceAll(ownToken, stars);
  return withoutOwnToken
    .replaceAll(TOKEN_PATTERN, (found, scheme = '') => scheme + stars(found.slice(scheme.length)))
    .replaceAll(NAMED_SECRET_PATTERN, (_, name: string, value: string) => name + stars(value));
}

function stars(secret: string): string {
  return '*'.repeat(secret.length);
}

const MASK = '***';
const SECRET_NAME = /token|secret|password|authorization|credential|api_?key/i;
/** Matches access tokens, JWTs, and values of `Authorization` in linear time, so that a long text cannot block the process. */
const TOKEN_PATTERN = /ql[at]_[\w-]{8,}|eyJ[\w-]{16,}[\w.-]*|(bearer +)[\w.~+/-]+=*/gi;
/** Matches JSON members with a name such as `password`, including JSON that is quoted inside a string. */
const NAMED_SECRET_PATTERN =
  /("[^"]{0,64}(?:token|secret|password|authorization|credential|api_?key)[^"]{0,64}"\s*:\s*\\*")((?:[^"\\]|\\.)*)/gi;

const QUOTE = 0x22;
const COMMA = 0x2c;
const OPEN_ARRAY = 0x5b;
const CLOSE_ARRAY = 0x5d;
const OPEN_OBJECT = 0x7b;
