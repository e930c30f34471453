/** Telemetry event in requests and responses (contract: "Resources and their fields"). */
import Type from 'typebox';
import { EXAMPLE_SESSION, NextCursor, Nullable, Timestamp, Uuid } from './fields.ts';

const sequence = Type.Optional(
  Type.Integer({
    minimum: 1,
    maximum: Number.MAX_SAFE_INTEGER,
    description:
      'The client’s own count of the session’s events, from 1. The session and its reports then show which numbers are missing.',
  }),
);

const optional = {
  buildId: Type.Optional(Uuid),
  occurredAt: Type.Optional(Timestamp),
  sequence,
  payload: Type.Optional(Type.Object({}, { description: 'Any object. Its bytes are kept unchanged.' })),
};
const eventType = Type.String({ description: 'Any string.' });

const INPUT_EXAMPLE = {
  examples: [{ sessionId: EXAMPLE_SESSION, eventType: 'checkpoint', payload: { level: 3 } }],
};

export const EventInputA = Type.Object({ sessionId: Uuid, eventType, ...optional }, INPUT_EXAMPLE);
export const EventInputB = Type.Object(
  { sessionId: Type.Optional(Uuid), eventType, ...optional },
  INPUT_EXAMPLE,
);

export const EVENT_INPUT = { A: EventInputA, B: EventInputB } as const;

export const EventOutput = Type.Object({
  id: Uuid,
  sessionId: Nullable(Uuid),
  buildId: Nullable(Uuid),
  eventType: Type.String(),
  occurredAt: Timestamp,
  sequence: Type.Optional(Type.Integer({ minimum: 1, description: 'Present only if the client sent it.' })),
  payload: Type.Object({}),
  reportIds: Type.Array(Type.String()),
  overQuota: Type.Optional(Type.Boolean({ description: 'Revision A only.' })),
});

const EXAMPLE = {
  id: '01a1fe02-7454-7000-a110-3027adf24232',
  sessionId: EXAMPLE_SESSION,
  buildId: '74cfa6a7-bf22-8fde-ad8c-b9a9e8750976',
  eventType: 'checkpoint',
  occurredAt: '2026-11-21T18:41:56.148Z',
  payload: { level: 3 },
  reportIds: ['0b0a4c0e-5a3f-4a55-9a3c-5b6f0d6f6a11'],
};

export const EventPage = Type.Object(
  { events: Type.Array(EventOutput), next: NextCursor },
  { examples: [{ events: [EXAMPLE], next: null }] },
);

/** Maximum number of events in one request, by revision of the contract (contract: "Limits"). */
export const BATCH_CAP = { A: 500, B: 200 } as const;

/** Maximum nesting depth of a field's value. An array or object without nested containers has the depth 1. */
export const MAX_DEPTH = 64;

const KIB = 1024;
export const LIMITS = {
  maxBodyBytes: 8 * KIB * KIB,
  maxEventBytes: 256 * KIB,
} as const;
