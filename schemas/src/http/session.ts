/** Sessions: registered once by a game, named by its events. */
import Type, { type Static } from 'typebox';
import { Nullable, Timestamp, Uuid } from './fields.ts';

export const SessionInput = Type.Object({
  id: Type.Optional(Uuid),
  buildId: Type.Optional(Uuid),
  startedAt: Type.Optional(Timestamp),
});
export type SessionInput = Static<typeof SessionInput>;

export const SessionOutput = Type.Object({ id: Uuid, buildId: Nullable(Uuid), startedAt: Timestamp });
export type SessionOutput = Static<typeof SessionOutput>;
