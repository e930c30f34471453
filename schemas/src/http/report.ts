/** Bug reports: the body that files one, and the answers for a report, its events and its links. */
import Type, { type Static } from 'typebox';
import { LINK_VERSIONS } from '../topics/linkedEvents.ts';
import { MAX_NAMED_EVENTS } from '../topics/reportLinks.ts';
import { BATCH_CAP, EventInputB, EventOutput } from './event.ts';
import { Nullable, Timestamp, Uuid, WindowMs, windowMillis } from './fields.ts';

const window = Type.Object(
  { beforeMs: Type.Optional(windowMillis), afterMs: Type.Optional(windowMillis) },
  {
    description: 'Events of the session inside it belong to the report. An omitted side is the project’s.',
  },
);

const optional = {
  id: Type.Optional(Uuid),
  sessionId: Type.Optional(Uuid),
  occurredAt: Type.Optional(Timestamp),
  window: Type.Optional(window),
};

export const ReportInput = Type.Object({
  ...optional,
  events: Type.Optional(
    Type.Array(EventInputB, {
      maxItems: BATCH_CAP.A,
      description: `Stored with the report. Revision A: each with its session. Revision B: at most ${BATCH_CAP.B}.`,
    }),
  ),
  eventIds: Type.Optional(
    Type.Array(Uuid, {
      maxItems: MAX_NAMED_EVENTS,
      description: 'Events that are stored or still to come.',
    }),
  ),
});

/** The fields that are checked together; the events and the ids have checks of their own, which name every bad one. */
export const ReportFields = Type.Object({
  ...optional,
  events: Type.Optional(Type.Array(Type.Unknown())),
  eventIds: Type.Optional(Type.Array(Type.Unknown(), { maxItems: MAX_NAMED_EVENTS })),
});
export type ReportFields = Static<typeof ReportFields>;

const linkState = Type.Enum(Object.keys(LINK_VERSIONS), {
  description:
    '`pending`: not linked yet (about a second once the event is there); `unresolved`: the event did not come within 15 minutes after the window.',
});
const linkSource = Type.Enum(['inline', 'named', 'session'], {
  description: 'Why the event belongs to the report.',
});

export const ReportLinkOutput = Type.Object({ eventId: Uuid, state: linkState, source: linkSource });

/** The data of a message of `GET /v1/linked-events`. */
export const LinkedEventMessage = Type.Object({
  linkId: Type.String({
    format: 'uuid',
    description: 'One id for each pair of a report and an event.',
  }),
  kind: Type.Enum(['linked', 'unlinked']),
  version: Type.Integer({
    description: `${LINK_VERSIONS.linked}: linked; ${LINK_VERSIONS.retracted}: retracted. A larger one replaces a smaller one.`,
  }),
  reportId: Uuid,
  source: linkSource,
  changedAt: Timestamp,
  event: Type.Object({
    id: Uuid,
    sessionId: Nullable(Uuid),
    buildId: Nullable(Uuid),
    eventType: Type.String(),
    occurredAt: Timestamp,
    receivedAt: Timestamp,
    payload: Type.Object({}),
    overQuota: Type.Optional(Type.Boolean({ description: 'Revision A only.' })),
  }),
});

const report = {
  id: Uuid,
  sessionId: Nullable(Uuid),
  occurredAt: Timestamp,
  receivedAt: Timestamp,
  window: WindowMs,
  state: Type.Enum(['filed', 'retracted']),
};
const links = {
  links: Type.Array(ReportLinkOutput),
  linksTruncated: Type.Boolean({ description: 'The report has more links.' }),
};

export const ReportOutput = Type.Object({ ...report, ...links });
export const ReportCreated = Type.Object({ ...report, events: Type.Array(EventOutput), ...links });

export const ReportEvent = Type.Object({
  ...EventOutput.properties,
  link: Type.Object({ state: Type.Enum(['linked', 'retracted']), source: linkSource }),
});
export const ReportEventPage = Type.Object({
  events: Type.Array(ReportEvent),
  next: Nullable(Type.String({ description: 'Pass as `cursor` for the next page; null at the end.' })),
});

export const LinkRetryInput = Type.Object(
  {
    tenantId: Type.Optional(Uuid),
    projectId: Type.Optional(Uuid),
    reportId: Type.Optional(Uuid),
  },
  { additionalProperties: false },
);
export type LinkRetryInput = Static<typeof LinkRetryInput>;
export const LinkRetryOutput = Type.Object({
  reports: Type.Integer({
    minimum: 0,
    description: 'Looked up again; at most 1000 a request.',
  }),
  links: Type.Integer({ minimum: 0, description: 'Their unresolved links.' }),
});
