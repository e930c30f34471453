/** Data of the server-sent events of `GET /admin/tail`. */
import Type, { type Static } from 'typebox';
import { Nullable, Timestamp, Uuid } from './fields.ts';

const Count = Type.Integer({ minimum: 0 });

export const TailEvent = Type.Object({
  id: Uuid,
  tenantId: Uuid,
  projectId: Uuid,
  sessionId: Nullable(Uuid),
  buildId: Nullable(Uuid),
  eventType: Type.String(),
  occurredAt: Timestamp,
  receivedAt: Timestamp,
  overQuota: Type.Boolean(),
  sequence: Nullable(Type.Integer()),
  partition: Count,
  offset: Count,
  index: Count,
  payload: Type.String({ description: 'The bytes that the game sent.' }),
});

export const TailCount = Type.Object({
  matched: Count,
  shown: Count,
  unreadRecords: Type.Integer({
    minimum: 0,
    description: 'Records that were skipped so that ingest is not delayed.',
  }),
});

export type TailEvent = Static<typeof TailEvent>;
export type TailCount = Static<typeof TailCount>;
