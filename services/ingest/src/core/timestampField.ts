/** A timestamp in a small JSON body, whose schema takes any string. */

import { Rejected } from '../rejected.ts';
import { parseOccurredAt } from './occurredAt.ts';

/** Microseconds since the epoch. @throws Rejected naming the field. */
export function timestampField(field: string, text: string): bigint {
  const parsed = parseOccurredAt(text);
  if (parsed.ok) return parsed.micros;
  const code = parsed.reason === 'range' ? 'timestamp_out_of_range' : 'invalid_timestamp';
  const detail = `${field} must be an ISO 8601 timestamp in the years 1900 to 2299`;
  throw new Rejected('invalid_request', detail, {
    errors: [{ index: 0, pointer: `/${field}`, code, detail }],
  });
}
