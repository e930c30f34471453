/** Bug reports: the body that files one, and the answers for a report, its events and its links. */
import Type, { type Static } from 'typebox';
import { LINK_VERSIONS } from '../topics/linkedEvents.ts';
import { MAX_NAMED_EVENTS, REPORTER_TYPES, SEVERITIES } from '../topics/reportLinks.ts';
import { BATCH_CAP, EventInputB, EventOutput } from './event.ts';
import { EXAMPLE_SESSION, NextCursor, Nullable, Timestamp, Uuid, WindowMs, windowMillis } from './fields.ts';
import { SessionSequence } from './session.ts';
import { AttachmentType } from './upload.ts';

const window = Type.Object(
  { beforeMs: Type.Optional(windowMillis), afterMs: Type.Optional(windowMillis) },
  {
    description: 'Events of the session inside it belong to the report. An omitted side is the project’s.',
  },
);

const text = (maxLength: number, description: string) =>
  Type.Optional(Type.String({ maxLength, description }));

export const MAX_FINGERPRINT_CHARS = 255;

const content = Type.Object({
  title: Type.String({ minLength: 1, maxLength: 500, examples: ['Player stuck in wall'] }),
  description: text(64 * 1024, 'At most 64 KiB of UTF-8.'),
  severity: Type.Optional(Type.Enum(SEVERITIES)),
  reporterType: Type.Optional(Type.Enum(REPORTER_TYPES)),
  sourceChannel: text(255, 'Where the report came from.'),
  fingerprint: text(MAX_FINGERPRINT_CHARS, 'Reports with one fingerprint in one project are one problem.'),
});

const attachment = Type.Object({
  uploadId: Uuid,
  attachmentType: AttachmentType,
  fileName: Type.String({ format: 'file-name', minLength: 1, maxLength: 255 }),
  mimeType: Type.Optional(
    Type.String({ format: 'media-type', maxLength: 255, description: 'A media type.' }),
  ),
  sizeBytes: Type.Optional(Type.Integer({ minimum: 0 })),
});
export type AttachmentInput = Static<typeof attachment>;

export const REPORT_LIMITS = {
  /** Of UTF-8. */
  maxDescriptionBytes: 64 * 1024,
  /** The object as sent. */
  maxContextBytes: 64 * 1024,
  maxAttachments: 50,
} as const;

const optional = {
  id: Type.Optional(Uuid),
  clientRequestId: Type.Optional(
    Type.String({
      ...Uuid,
      description:
        'A UUID that the client makes for this report: a repeat with it is answered 200, whatever else it says, also what a first one is refused for. Not beside `id`.',
    }),
  ),
  sessionId: Type.Optional(Uuid),
  buildId: Type.Optional(Uuid),
  report: Type.Optional(content),
  context: Type.Optional(
    Type.Object(
      {},
      { description: 'Any object, at most 64 KiB; kept byte for byte.', examples: [{ sceneName: 'Arena' }] },
    ),
  ),
  attachments: Type.Optional(
    Type.Array(attachment, {
      maxItems: REPORT_LIMITS.maxAttachments,
      description: 'Files that were uploaded with `POST /v1/ingest/uploads`.',
    }),
  ),
  occurredAt: Type.Optional(Timestamp),
  window: Type.Optional(window),
};

export const ReportInput = Type.Object(
  {
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
  },
  {
    examples: [
      {
        sessionId: EXAMPLE_SESSION,
        report: { title: 'Player stuck in wall', severity: 'high' },
        context: { sceneName: 'Arena' },
      },
    ],
  },
);

/** The fields that are checked together; the events and the ids have checks of their own, which name every bad one. */
export const ReportFields = Type.Object({
  ...optional,
  events: Type.Optional(Type.Array(Type.Unknown())),
  eventIds: Type.Optional(Type.Array(Type.Unknown())),
  attachments: Type.Optional(Type.Array(attachment)),
});
export type ReportFields = Static<typeof ReportFields>;

const linkState = Type.Enum([...Object.keys(LINK_VERSIONS), 'expired'], {
  description:
    '`pending`: not linked yet (the link follows about a second after the event arrives); `unresolved`: the event did not arrive within 15 minutes after the window; `expired`: retention has removed the event, or the stored row of the link.',
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
  event: Type.Object({ ...Type.Omit(EventOutput, ['reportIds']).properties, receivedAt: Timestamp }),
});

/** The data of the message `gap` of `GET /v1/linked-events`. */
export const LinkedEventGap = Type.Object({
  from: Nullable({
    ...Timestamp,
    description:
      'Time of the last link before the gap; `null` if it is unknown. Links with this `changedAt` or a later one can be missing.',
  }),
  to: {
    ...Timestamp,
    description: 'Time of the first link after the gap, or of this message if the log keeps no later link.',
  },
});

const report = {
  id: Uuid,
  reportId: Type.String({ ...Uuid, description: 'The same as `id`.' }),
  status: Type.Enum(['filed', 'retracted'], { description: 'The same as `state`.' }),
  sessionId: Nullable(Uuid),
  buildId: Nullable(Uuid),
  occurredAt: Timestamp,
  receivedAt: Timestamp,
  window: WindowMs,
  state: Type.Enum(['filed', 'retracted']),
};
const links = {
  links: Type.Array(ReportLinkOutput),
  linksTruncated: Type.Boolean({ description: 'The report has more links.' }),
  truncated: Type.Boolean({
    description:
      'The session has more events in the window than the report gets links (`QUESTLOG_REPORT_LINKS`; none where 50 others of it are open).',
  }),
};

const attachments = Type.Array(
  Type.Object({
    uploadId: Uuid,
    attachmentType: Type.String(),
    fileName: Type.String(),
    mimeType: Nullable(Type.String()),
    sizeBytes: Nullable(Type.Integer()),
    state: Type.Enum(['stored', 'missing', 'expired'], {
      description:
        '`missing`: the file had not been uploaded when the report was filed; `expired`: retention has removed it.',
    }),
  }),
);

const shortTexts = {
  severity: Nullable(Type.String()),
  reporterType: Nullable(Type.String()),
  sourceChannel: Nullable(Type.String()),
  fingerprint: Nullable(Type.String()),
};

export const ReportOutput = Type.Object({
  ...report,
  report: Nullable(
    Type.Object({
      title: Nullable(Type.String()),
      description: Nullable(Type.String()),
      ...shortTexts,
    }),
  ),
  context: Nullable(Type.Object({})),
  sequence: SessionSequence,
  attachments,
  ...links,
});

const LISTED_EXAMPLE = {
  id: '0b0a4c0e-5a3f-4a55-9a3c-5b6f0d6f6a11',
  reportId: '0b0a4c0e-5a3f-4a55-9a3c-5b6f0d6f6a11',
  status: 'filed',
  sessionId: EXAMPLE_SESSION,
  buildId: '74cfa6a7-bf22-8fde-ad8c-b9a9e8750976',
  occurredAt: '2026-11-21T18:42:07.250Z',
  receivedAt: '2026-11-21T18:42:08.031Z',
  window: { beforeMs: 600_000, afterMs: 60_000 },
  state: 'filed',
  report: {
    title: 'Player stuck in wall',
    severity: 'high',
    reporterType: 'player',
    sourceChannel: 'api',
    fingerprint: 'dash-collision-lock',
  },
};

/** Without its description, context, files and links, which may have hundreds of kilobytes. */
export const ListedReport = Type.Object(
  { ...report, report: Nullable(Type.Object({ title: Type.String(), ...shortTexts })) },
  { examples: [LISTED_EXAMPLE] },
);
export type ListedReport = Static<typeof ListedReport>;

export const ReportPage = Type.Object(
  { reports: Type.Array(ListedReport), next: NextCursor },
  { examples: [{ reports: [LISTED_EXAMPLE], next: null }] },
);
export type ReportPage = Static<typeof ReportPage>;

export const ReportCreated = Type.Object({
  ...report,
  idempotent: Type.Optional(
    Type.Boolean({ description: 'True: this is the report that was filed earlier.' }),
  ),
  eventIdsTruncated: Type.Optional(
    Type.Boolean({
      description:
        'True: there were more than 1,000 `eventIds`, and the last 1,000 count; or some are named by 50 open reports, and do not count.',
    }),
  ),
  attachmentsMissing: Type.Optional(
    Type.Array(Uuid, { description: 'The uploads that the request names and that are not there.' }),
  ),
  events: Type.Array(EventOutput),
  ...links,
});

export const ReportEvent = Type.Object({
  ...EventOutput.properties,
  link: Type.Object({ state: Type.Enum(['linked', 'retracted']), source: linkSource }),
});
export const ReportEventPage = Type.Object({ events: Type.Array(ReportEvent), next: NextCursor });

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
