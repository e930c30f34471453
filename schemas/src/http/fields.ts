/** The fields that several HTTP shapes share. */
import Type from 'typebox';
import { UUID_PATTERN } from '../uuid.ts';

export const Uuid = Type.String({ format: 'uuid', pattern: UUID_PATTERN });

export const Timestamp = Type.String({
  description: 'ISO 8601 / RFC 3339; no offset means UTC. Kept to the microsecond, answered in UTC.',
  examples: ['2026-11-21T18:30:00.123456Z'],
});

export function Nullable<T extends Type.TSchema>(schema: T): Type.TUnion<[T, Type.TNull]> {
  return Type.Union([schema, Type.Null()]);
}
