/** Bodies of requests that create a bug report, and responses with a report, its events, or its links. */
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
    description:
      'Events of the session in this window belong to the report. An omitted side uses the project’s default.',
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
  sourceChannel: text(255, 'Source of the report.'),
  fingerprint: text(
    MAX_FINGERPRINT_CHARS,
    'Reports of one project with the same fingerprint describe the same problem.',
  ),
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
  maxDescriptionBytes: 64 * 1024,
  maxContextBytes: 64 * 1024,
  maxAttachments: 50,
} as const;

const optional = {
  id: Type.Optional(Uuid),
  clientRequestId: Type.Optional(
    Type.String({
      ...Uuid,
      description:
        'A UUID that the client creates for this report. A retry with the same UUID gets 200 and the first report, whatever else its body contains. Not allowed together with `id`.',
    }),
  ),
  sessionId: Type.Optional(Uuid),
  buildId: Type.Optional(Uuid),
  report: Type.Optional(content),
  context: Type.Optional(
    Type.Object(
      {},
      {
        description: 'Any object of at most 64 KiB. Its bytes are kept unchanged.',
        examples: [{ sceneName: 'Arena' }],
      },
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
        description: `Events to store with the report. Revision A: each event needs a session. Revision B: at most ${BATCH_CAP.B} events.`,
      }),
    ),
    eventIds: Type.Optional(
      Type.Array(Uuid, {
        maxItems: MAX_NAMED_EVENTS,
        description: 'Ids of events that are stored or that arrive later.',
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

/** Ingest validates each element of `events` and `eventIds` on its own, outside this schema. */
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
  description: 'Reason why the event belongs to the report.',
});

export const ReportLinkOutput = Type.Object({ eventId: Uuid, state: linkState, source: linkSource });

export const LinkedEventMessage = Type.Object({
  linkId: Type.String({
    format: 'uuid',
    description: 'One id for each pair of a report and an event.',
  }),
  kind: Type.Enum(['linked', 'unlinked']),
  version: Type.Integer({
    description: `${LINK_VERSIONS.linked}: linked; ${LINK_VERSIONS.retracted}: retracted. A larger version replaces a smaller version.`,
  }),
  reportId: Uuid,
  source: linkSource,
  changedAt: Timestamp,
  event: Type.Object({ ...Type.Omit(EventOutput, ['reportIds']).properties, receivedAt: Timestamp }),
});

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
  linksTruncated: Type.Boolean({ description: 'True: the report has more links than this list.' }),
  truncated: Type.Boolean({
    description:
      'True: the session has more events in the window than the maximum number of links (`QUESTLOG_REPORT_LINKS`; 0 if the session has 50 other open reports).',
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
  idempotent: Type.Optional(Type.Boolean({ description: 'True: the report was filed earlier.' })),
  eventIdsTruncated: Type.Optional(
    Type.Boolean({
      description:
        'True: some `eventIds` were ignored. Only the last 1,000 ids count, and an event that 50 open reports already name is ignored.',
    }),
  ),
  attachmentsMissing: Type.Optional(
    Type.Array(Uuid, { description: 'Uploads that the request names and that do not exist.' }),
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
    description: 'Number of reports that are looked up again; at most 1000 per request.',
  }),
  links: Type.Integer({ minimum: 0, description: 'Number of unresolved links of these reports.' }),
});
