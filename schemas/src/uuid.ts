/**
 * Creates, parses, and formats UUIDs. An event id is a UUIDv7 (RFC 9562, section 5.7). It contains the time in milliseconds,
 * the lane of the session (12 bits), and 62 random or hashed bits.
 */

const CANONICAL = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;
const ANY_CASE = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;
const VERSION_7 = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

/** Pattern of UUIDs in JSON Schema. Requests can contain upper-case digits, and responses contain only lower-case digits. */
export const UUID_PATTERN = '^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$';

export const NIL_UUID = '00000000-0000-0000-0000-000000000000';
export const UUID_LENGTH = 36;
export const UUID_BYTES = 16;
export const MAX_LANES = 4096;

export function canonicalUuid(text: string): string | undefined {
  if (CANONICAL.test(text)) return text;
  return ANY_CASE.test(text) ? text.toLowerCase() : undefined;
}

export function isUuidV7(canonical: string): boolean {
  return VERSION_7.test(canonical);
}

/**
 * Returns an event id. It consists of the time modulo 2^48, the lane (which determines the session's partition), and 62 bits
 * that are read from `tail` at the position `tailAt`.
 */
export function eventId(millis: number, lane: number, tail: Buffer, tailAt = 0): string {
  writeEventId(TEXT, 0, millis, lane, tail, tailAt);
  return TEXT.toString('latin1', 0, UUID_LENGTH);
}

export function writeEventId(
  to: Buffer,
  at: number,
  millis: number,
  lane: number,
  tail: Buffer,
  tailAt: number,
): void {
  writeHex(to, at, Math.floor(millis / 0x10000), 8);
  to[at + 8] = HYPHEN;
  writeHex(to, at + 9, millis % 0x10000, 4);
  to[at + 13] = HYPHEN;
  writeHex(to, at + 14, 0x7000 | lane, 4);
  to[at + 18] = HYPHEN;
  writeIdTail(to, at + 19, tail, tailAt);
}

/** Returns the last part of an event id, made from the 8 bytes at `at`. `tailOf` reads this part from an id. */
export function idTail(tails: Buffer, at: number): string {
  writeIdTail(TEXT, 0, tails, at);
  return TEXT.toString('latin1', 0, UUID_LENGTH - 19);
}

function writeIdTail(to: Buffer, at: number, tail: Buffer, tailAt: number): void {
  writeHex(to, at, 0x8000 | (((tail[tailAt] ?? 0) & 0x3f) << 8) | (tail[tailAt + 1] ?? 0), 4);
  to[at + 4] = HYPHEN;
  for (let i = 0; i < 6; i++) writeHex(to, at + 5 + 2 * i, tail[tailAt + 2 + i] ?? 0, 2);
}

/** Returns a UUIDv8 (RFC 9562, section 5.8) made of 16 bytes that start at index `at`. */
export function uuidV8(bytes: Buffer, at = 0): string {
  writeUuid(bytes, at);
  TEXT[14] = EIGHT;
  TEXT[19] = LOWER_A;
  return TEXT.toString('latin1', 0, UUID_LENGTH);
}

export function uuidOf(bytes: Buffer): string {
  writeUuid(bytes, 0);
  return TEXT.toString('latin1', 0, UUID_LENGTH);
}

function writeUuid(bytes: Buffer, at: number): void {
  let to = 0;
  for (let i = 0; i < UUID_BYTES; i++, to += 2) {
    if (i === 4 || i === 6 || i === 8 || i === 10) TEXT[to++] = HYPHEN;
    writeHex(TEXT, to, bytes[at + i] ?? 0, 2);
  }
}

export function bytesOfUuid(uuid: string): Buffer {
  return Buffer.from(uuid.replaceAll('-', ''), 'hex');
}

export function millisOf(id: string): number {
  return Number.parseInt(id.slice(0, 8) + id.slice(9, 13), 16);
}

export function laneOf(id: string): number {
  return Number.parseInt(id.slice(15, 18), 16);
}

/** Returns the last part of an event id. The last part differs for all events of a request. */
export function tailOf(id: string): string {
  return id.slice(19);
}

/** Reads a lower-case UUID in a text into four 32-bit numbers. Returns false if the text contains no such UUID at `at`. */
export function readUuid(bytes: Buffer, at: number, words: Uint32Array, wordAt: number): boolean {
  if (bytes[at + 8] !== HYPHEN || bytes[at + 13] !== HYPHEN) return false;
  if (bytes[at + 18] !== HYPHEN || bytes[at + 23] !== HYPHEN) return false;
  const a = fourDigits(bytes, at);
  const b = fourDigits(bytes, at + 4);
  const c = fourDigits(bytes, at + 9);
  const d = fourDigits(bytes, at + 14);
  const e = fourDigits(bytes, at + 19);
  const f = fourDigits(bytes, at + 24);
  const g = fourDigits(bytes, at + 28);
  const h = fourDigits(bytes, at + 32);
  if ((a | b | c | d | e | f | g | h) < 0) return false;
  words[wordAt] = (a << 16) | b;
  words[wordAt + 1] = (c << 16) | d;
  words[wordAt + 2] = (e << 16) | f;
  words[wordAt + 3] = (g << 16) | h;
  return true;
}

/** Writes a UUID as ClickHouse stores it: its high half and its low half, each as a little-endian UInt64. */
export function writeUuidHalves(to: Buffer, at: number, uuid: string): void {
  // Uses no Buffer, because creating a Buffer for each UUID took a tenth of the projector's time.
  for (let i = 0; i < UUID_BYTES; i++) {
    const digits = DIGITS_OF_HALVES[i] ?? 0;
    to[at + i] = (digitOf(uuid.charCodeAt(digits)) << 4) | digitOf(uuid.charCodeAt(digits + 1));
  }
}

/** Converts the digits one by one, because reading the four words with `readUuid` made the rows of events 8 % slower. */
export function copyUuidHalves(to: Buffer, at: number, text: Buffer, textAt: number): void {
  for (let i = 0; i < UUID_BYTES; i++) {
    const digits = textAt + (DIGITS_OF_HALVES[i] ?? 0);
    to[at + i] = (digitOf(text[digits] ?? 0) << 4) | digitOf(text[digits + 1] ?? 0);
  }
}

/** Returns the value of a hexadecimal digit of any case. The low four bits of 'a' and 'A' are 1, so 9 is added for letters. */
function digitOf(code: number): number {
  return (code & 0x0f) + (code >> 6) * 9;
}

/** Returns the time of an event id whose text starts at `at`. */
export function millisAt(bytes: Buffer, at: number): number {
  return fourDigits(bytes, at) * 2 ** 32 + fourDigits(bytes, at + 4) * 2 ** 16 + fourDigits(bytes, at + 9);
}

/** Returns the value of four lower-case hexadecimal digits. Negative if a character is not such a digit. */
function fourDigits(bytes: Buffer, at: number): number {
  return (
    ((DIGIT_VALUES[bytes[at] ?? 0] ?? -1) << 12) |
    ((DIGIT_VALUES[bytes[at + 1] ?? 0] ?? -1) << 8) |
    ((DIGIT_VALUES[bytes[at + 2] ?? 0] ?? -1) << 4) |
    (DIGIT_VALUES[bytes[at + 3] ?? 0] ?? -1)
  );
}

function writeHex(to: Buffer, at: number, value: number, digits: number): void {
  for (let i = at + digits - 1, rest = value; i >= at; i--, rest >>>= 4) to[i] = DIGITS[rest & 15] ?? 0;
}

/**
 * ClickHouse orders the bytes of a UUID differently than the text. For each byte in ClickHouse's order, this list contains the
 * position of the byte's first hexadecimal digit in the text.
 */
const DIGITS_OF_HALVES = [16, 14, 11, 9, 6, 4, 2, 0, 34, 32, 30, 28, 26, 24, 21, 19] as const;
const HYPHEN = 0x2d;
const EIGHT = 0x38;
const LOWER_A = 0x61;
const DIGITS = Buffer.from('0123456789abcdef');
const DIGIT_VALUES = Int8Array.from({ length: 256 }, (_, byte) => DIGITS.indexOf(byte));
/** Buffer in which a UUID is formatted. */
const TEXT = Buffer.allocUnsafeSlow(UUID_LENGTH);
