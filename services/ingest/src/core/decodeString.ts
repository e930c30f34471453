/** Decodes the inside of a JSON string whose grammar has already been checked. */
/** `start` and `end` lie inside the quotes. Lone surrogates stay in the answer, as `JSON.parse` leaves them. */
export function decodeString(body: Buffer, start: number, end: number): string {
  if (!body.subarray(start, end).includes(BACKSLASH)) return body.toString('utf8', start, end);
  // Escapes are rare in the envelope; the engine's own decoder cannot differ from what clients know.
  const value: unknown = JSON.parse(body.toString('utf8', start - 1, end + 1));
  return String(value);
}

const BACKSLASH = 0x5c;
