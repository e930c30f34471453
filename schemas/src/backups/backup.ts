/** Backups of a Questlog on embedded engines, as operators see them: `/admin/backups`. */
import Type, { type Static } from 'typebox';
import { Nullable, Timestamp, Uuid } from '../http/fields.ts';

export const Backup = Type.Object({
  id: Uuid,
  state: Type.Enum(['running', 'done', 'failed']),
  startedAt: Timestamp,
  endedAt: Nullable(Timestamp),
  folder: Nullable(
    Type.String({ description: 'Where it lies on the machine of Questlog, once it is done.' }),
  ),
  bytes: Nullable(Type.Integer({ minimum: 0 })),
  problem: Nullable(Type.String({ description: 'Why it failed.' })),
});
export type Backup = Static<typeof Backup>;
