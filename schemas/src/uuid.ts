/**
 * UUIDs as Questlog makes and reads them. An event's id is a UUIDv7 (RFC 9562, section 5.7): 48 bits of milliseconds,
 * then 12 bits that hold the *lane* (see `partition.ts`) where the RFC has random bits, then 62 random or hashed bits.
 */

const CANONICAL = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;
const ANY_CASE = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;
const VERSION_7 = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

/** The pattern that OpenAPI shows and TypeBox checks: accepted in any case, answered in lower case. */
export const UUID_PATTERN = '^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$';

/** Lanes fit in the 12 bits that an event's id has for them. */
export const MAX_LANES = 4096;

/** The UUID in lower case, or undefined where the text is not a UUID. */
export function canonicalUuid(text: string): string | undefined {
  if (CANONICAL.test(text)) return text;
  return ANY_CASE.test(text) ? text.toLowerCase() : undefined;
}

export function isUuidV7(canonical: string): boolean {
  return VERSION_7.test(canonical);
}

/**
 * An event's id. `tail` gives its last 62 bits: 8 bytes, random or hashed, of which the first two bits are replaced by
 * the variant. `millis` is taken modulo 2^48.
 */
export function eventId(millis: number, lane: number, tail: Buffer, tailOffset = 0): string {
  return idHead(millis, lane) + idTail(tail, tailOffset);
}

/** All of it up to its tail, the hyphen too. */
export function idHead(millis: number, lane: number): string {
  return `${idTime(millis)}7${hex(lane, 3)}-`;
}

/** The 14 characters of it that ids of one time share, whatever their lane. */
export function idTime(millis: number): string {
  const time = hex(Math.floor(millis / 0x1000000) & 0xffffff, 6) + hex(millis % 0x1000000, 6);
  return `${time.slice(0, 8)}-${time.slice(8)}-`;
}

/** The value of `tailOf` for an id made with these 8 bytes. */
export function idTail(tail: Buffer, offset = 0): string {
  const high = (tail.readUInt16BE(offset) & 0x3fff) | 0x8000;
  return `${hex(high, 4)}-${tail.toString('hex', offset + 2, offset + 8)}`;
}

/** A UUIDv8 (RFC 9562, section 5.8) of the 16 bytes at `at`, which were drawn or hashed. */
export function uuidV8(bytes: Buffer, at = 0): string {
  const text = bytes.toString('hex', at, at + 16);
  return `${text.slice(0, 8)}-${text.slice(8, 12)}-8${text.slice(13, 16)}-a${text.slice(17, 20)}-${text.slice(20)}`;
}

/** The milliseconds since the epoch inside a UUIDv7. */
export function millisOf(id: string): number {
  return Number.parseInt(id.slice(0, 8) + id.slice(9, 13), 16);
}

/** The lane inside an event's id. */
export function laneOf(id: string): number {
  return Number.parseInt(id.slice(15, 18), 16);
}

/** The last 62 bits of an id with their variant, as text. They tell two events of one key apart, whatever their lane. */
export function tailOf(id: string): string {
  return id.slice(19);
}

function hex(value: number, digits: number): string {
  return value.toString(16).padStart(digits, '0');
}
