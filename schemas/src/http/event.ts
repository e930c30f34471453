/** The telemetry event, as a game sends it and as it is answered (contract: "Resources and their fields"). */
import Type from 'typebox';
import { Nullable, Timestamp, Uuid } from './fields.ts';

const optional = {
  buildId: Type.Optional(Uuid),
  occurredAt: Type.Optional(Timestamp),
  payload: Type.Optional(Type.Object({}, { description: 'Any data; kept byte for byte.' })),
};
const eventType = Type.String({ description: 'Any string.' });

/** One element of a request in revision A: the session is required. */
export const EventInputA = Type.Object({ sessionId: Uuid, eventType, ...optional });
/** One element of a request in revision B. */
export const EventInputB = Type.Object({ sessionId: Type.Optional(Uuid), eventType, ...optional });

export const EVENT_INPUT = { A: EventInputA, B: EventInputB } as const;

export const EventOutput = Type.Object({
  id: Uuid,
  sessionId: Nullable(Uuid),
  buildId: Nullable(Uuid),
  eventType: Type.String(),
  occurredAt: Timestamp,
  payload: Type.Object({}),
  reportIds: Type.Array(Type.String()),
  overQuota: Type.Optional(Type.Boolean({ description: 'Revision A only.' })),
});

export const EventPage = Type.Object({
  events: Type.Array(EventOutput),
  next: Nullable(Type.String({ description: 'Pass as `cursor` for the next page; null at the end.' })),
});

/** Elements of one array body: the contract's "Limits". */
export const BATCH_CAP = { A: 500, B: 200 } as const;

const KIB = 1024;
export const LIMITS = {
  /** A request body once inflated. */
  maxBodyBytes: 8 * KIB * KIB,
  /** One element of a body, as sent. */
  maxEventBytes: 256 * KIB,
} as const;
