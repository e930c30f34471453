/** Backup of a deployment with embedded engines, in the form that `/admin/backups` returns. */
import Type, { type Static } from 'typebox';
import { Nullable, Timestamp, Uuid } from '../http/fields.ts';

export const Backup = Type.Object({
  id: Uuid,
  state: Type.Enum(['running', 'done', 'failed']),
  startedAt: Timestamp,
  endedAt: Nullable(Timestamp),
  folder: Nullable(
    Type.String({
      description: 'Folder of the backup on the machine that runs Questlog; null until the backup is done.',
    }),
  ),
  bytes: Nullable(Type.Integer({ minimum: 0 })),
  problem: Nullable(Type.String({ description: 'Reason of the failure.' })),
});
export type Backup = Static<typeof Backup>;
