/**
 * Creates and parses UUIDs. An event id is a UUIDv7 (RFC 9562, section 5.7) with the time in milliseconds, the lane of the
 * session (12 bits), and 62 random or hashed bits.
 */

const CANONICAL = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;
const ANY_CASE = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;
const VERSION_7 = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

/** Pattern of UUIDs in JSON Schema. Requests can contain upper-case digits, and responses contain only lower-case digits. */
export const UUID_PATTERN = '^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$';

export const MAX_LANES = 4096;

export function canonicalUuid(text: string): string | undefined {
  if (CANONICAL.test(text)) return text;
  return ANY_CASE.test(text) ? text.toLowerCase() : undefined;
}

export function isUuidV7(canonical: string): boolean {
  return VERSION_7.test(canonical);
}

/** Returns an event id that contains the time modulo 2^48, the lane, and 62 bits of the buffer `tail`. */
export function eventId(millis: number, lane: number, tail: Buffer, tailOffset = 0): string {
  return idHead(millis, lane) + idTail(tail, tailOffset);
}

export function idHead(millis: number, lane: number): string {
  return `${idTime(millis)}7${hex(lane, 3)}-`;
}

export function idTime(millis: number): string {
  const time = hex(Math.floor(millis / 0x1000000) & 0xffffff, 6) + hex(millis % 0x1000000, 6);
  return `${time.slice(0, 8)}-${time.slice(8)}-`;
}

/** Returns the last part of an event id, made from 8 bytes of the buffer. `tailOf` reads this part from an id. */
export function idTail(tail: Buffer, offset = 0): string {
  const high = (tail.readUInt16BE(offset) & 0x3fff) | 0x8000;
  return `${hex(high, 4)}-${tail.toString('hex', offset + 2, offset + 8)}`;
}

/** Returns a UUIDv8 (RFC 9562, section 5.8) made of 16 bytes that start at index `at`. */
export function uuidV8(bytes: Buffer, at = 0): string {
  const text = bytes.toString('hex', at, at + 16);
  return `${text.slice(0, 8)}-${text.slice(8, 12)}-8${text.slice(13, 16)}-a${text.slice(17, 20)}-${text.slice(20)}`;
}

export function millisOf(id: string): number {
  return Number.parseInt(id.slice(0, 8) + id.slice(9, 13), 16);
}

export function laneOf(id: string): number {
  return Number.parseInt(id.slice(15, 18), 16);
}

/** Returns the last part of an event id, which is unique within a request. */
export function tailOf(id: string): string {
  return id.slice(19);
}

function hex(value: number, digits: number): string {
  return value.toString(16).padStart(digits, '0');
}
