/** Fields that several HTTP bodies share. */
import Type from 'typebox';
import { MAX_WINDOW_MS } from '../topics/reportLinks.ts';
import { UUID_PATTERN } from '../uuid.ts';

export const Uuid = Type.String({ format: 'uuid', pattern: UUID_PATTERN });

export const EXAMPLE_SESSION = '7846b5f4-39dd-4381-b200-dbc9f59749ad';

export const EXAMPLE_TIME = '2026-11-21T18:30:00.123456Z';

export const Timestamp = Type.String({
  format: 'iso-8601',
  description: 'ISO 8601; no offset means UTC. Stored with microseconds, returned in UTC.',
  examples: [EXAMPLE_TIME],
});

export function Nullable<T extends Type.TSchema>(schema: T): Type.TUnion<[T, Type.TNull]> {
  return Type.Union([schema, Type.Null()]);
}

export const NextCursor = Nullable(
  Type.String({ description: 'Pass as `cursor` for the next page; null at the end.' }),
);

export const windowMillis = Type.Integer({ minimum: 0, maximum: MAX_WINDOW_MS });
/** Time range around the time of a bug report. Events of the report's session in this time range are linked to the report. */
export const WindowMs = Type.Object({ beforeMs: windowMillis, afterMs: windowMillis });
