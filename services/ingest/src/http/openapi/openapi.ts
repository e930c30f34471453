/** Builds the OpenAPI 3.1 document for games from the types that validate requests. */

import { MAX_DEPTH } from '@questlog/runtime/http/core/scanValue';
import { acceptedSchema, REPORT_RULES } from '@questlog/runtime/http/openapi/acceptedSchema';
import { completeDocument } from '@questlog/runtime/http/openapi/completeDocument';
import {
  answer,
  BAD_LIST,
  CLOCK_SKEW,
  CODING,
  COMMON_RESPONSES,
  EVENT_PAGE,
  filter,
  header,
  id,
  MIB,
  NOT_THERE,
  problem,
  query,
  REPLAYED,
  read,
  ref,
  STRICT,
  TIME,
  UUID_TEXT,
  UUID_V7,
  write,
} from '@questlog/runtime/http/openapi/openapiParts';
import * as event from '@questlog/schemas/http/event';
import { Problem } from '@questlog/schemas/http/problem';
import { QuotaOutput } from '@questlog/schemas/http/quota';
import * as report from '@questlog/schemas/http/report';
import * as session from '@questlog/schemas/http/session';
import * as upload from '@questlog/schemas/http/upload';
import type { Revision } from '@questlog/schemas/topics/eventsAccepted';
import { type Document, withExamples } from './codeSamples.ts';
import { reportPaths } from './openapiReports.ts';
import { sessionPaths } from './openapiSessions.ts';
import { uploadPaths } from './openapiUploads.ts';

export function openApi(revision: Revision): Document {
  return withExamples(
    completeDocument({
      openapi: '3.1.0',
      info: {
        title: 'Questlog',
        version: '1',
        description: `Telemetry events of games. The default revision of the API is ${revision}. A project can use the other revision.`,
      },
      security: [{ bearer: [] }],
      paths: {
        '/v1/ingest/events': { post: ingestOperation() },
        ...sessionPaths(),
        '/v1/events': {
          get: read(
            'listEvents',
            'Lists the events of the project, the newest first, by the time at which they were accepted.',
            answer('A page of events.', 'EventPage'),
            { parameters: [...FILTERS, ...EVENT_PAGE], rejections: BAD_LIST },
          ),
        },
        '/v1/events/{id}': {
          get: read('getEvent', 'Returns one event.', answer('The event.', 'Event'), {
            parameters: [id],
            rejections: NOT_THERE,
          }),
        },
        ...uploadPaths(),
        ...reportPaths(),
        '/v1/linked-events': { get: linkedEventsOperation() },
        '/v1/quota': {
          get: read(
            'getQuota',
            'Returns the tenant’s quota and its use in this month.',
            answer('The use and the quota.', 'Quota'),
          ),
        },
        '/health': {
          get: {
            operationId: 'getHealth',
            summary: 'Checks that the service answers. Needs no token.',
            security: [],
            responses: { 200: answer('The service answers.', HEALTH), 417: COMMON_RESPONSES[417] },
          },
        },
        '/openapi.json': {
          get: {
            operationId: 'getOpenApi',
            summary: 'Returns this API as an OpenAPI 3.1 document.',
            security: [],
            responses: { 200: answer('The document.', { type: 'object' }), 417: COMMON_RESPONSES[417] },
          },
        },
      },
      components: {
        securitySchemes: { bearer: { type: 'http', scheme: 'bearer', description: TOKEN } },
        schemas: SCHEMAS,
      },
    }),
  );
}

const TOKEN =
  'An access token of a project. After `npm start`, it is `token` in `.data/dev-credentials.json`. To create a token, run ' +
  '`npx questlog tokens create`.';

const FILTERS = [
  filter(
    'sessionId',
    'Only events of this session. The list is empty if the project does not have the session.',
    UUID_TEXT,
  ),
  filter('eventType', 'Only events of exactly this type.', { type: 'string' }),
  filter(
    'since',
    'Only events with an `occurredAt` at or after this time. Encode a plus sign as `%2B`.',
    TIME,
  ),
  filter('until', 'Only events with an `occurredAt` before this time.', TIME),
];

const SCHEMAS = {
  EventInputA: acceptedSchema(event.EventInputA),
  EventInputB: acceptedSchema(event.EventInputB),
  Event: event.EventOutput,
  EventPage: event.EventPage,
  SessionInput: acceptedSchema(session.SessionInput, true),
  SessionCreated: session.SessionCreated,
  ListedSession: session.ListedSession,
  Session: session.SessionOutput,
  SessionPage: session.SessionPage,
  Build: session.BuildOutput,
  BuildPage: session.BuildPage,
  Quota: QuotaOutput,
  UploadInput: acceptedSchema(upload.UploadInput),
  Upload: upload.UploadOutput,
  UploadStored: upload.UploadStored,
  ReportInput: { ...acceptedSchema(report.ReportInput, true), ...REPORT_RULES },
  Report: report.ReportOutput,
  ListedReport: report.ListedReport,
  ReportPage: report.ReportPage,
  ReportCreated: report.ReportCreated,
  ReportLink: report.ReportLinkOutput,
  ReportEvent: report.ReportEvent,
  ReportEventPage: report.ReportEventPage,
  LinkedEventMessage: report.LinkedEventMessage,
  LinkedEventGap: report.LinkedEventGap,
  Problem,
};

const HEALTH = { type: 'object', properties: { status: { const: 'ok' } }, required: ['status'] };

const SAMPLED_HEADER =
  'Number of answered events that are not stored, because an operator samples events by session. Responses 200 and 207 can have this header, too.';

const SIZE_LIMITS =
  `A body may have at most ${event.LIMITS.maxBodyBytes / MIB} MiB after decompression, and an event ${event.LIMITS.maxEventBytes / 1024} KiB as ` +
  `sent. A payload may have at most ${MAX_DEPTH} levels of nesting.`;

function ingestOperation(): object {
  const batch = (input: string, maxItems: number) => ({
    type: 'array',
    items: ref(input),
    minItems: 1,
    maxItems,
  });
  const created = { type: 'array', items: ref('Event') };
  const key = 'A UUIDv7. Requests with the same key and body within 24 hours are stored once.';
  const lenient = '`handling=lenient` stores the valid elements of a batch and answers 207.';
  const texts = {
    operationId: 'createEvents',
    summary: 'Submits one event or a batch of events.',
    description:
      'Requires the scope `events:write`. Register the session first with `POST /v1/ingest/sessions`. An invalid element rejects the whole ' +
      `batch, unless the request has \`Prefer: handling=lenient\`. ${SIZE_LIMITS}`,
    parameters: [header('Idempotency-Key', key, UUID_V7), header('Prefer', `${lenient} ${STRICT}`), CODING],
  };
  const input = {
    anyOf: [
      ref('EventInputA'),
      batch('EventInputA', event.BATCH_CAP.A),
      ref('EventInputB'),
      batch('EventInputB', event.BATCH_CAP.B),
    ],
  };
  const elements = { type: 'array', items: { anyOf: [ref('Event'), ref('Problem')] } };
  return write(texts, input, {
    201: {
      ...answer('The created events, in request order.', created),
      headers: {
        'Questlog-Sampled': {
          schema: { type: 'string', examples: ['3 of 20'] },
          description: SAMPLED_HEADER,
        },
        ...CLOCK_SKEW,
      },
    },
    200: { ...answer('The events of an earlier request with this key.', created), headers: REPLAYED },
    207: answer(
      'With `handling=lenient`: a created event or a problem for each element, in request order. If some elements exceeded ' +
        'a rate limit (`rate_limited`), the response has the headers of a 429.',
      elements,
    ),
    400: problem('The body or an element is not valid. The problem lists every invalid element.'),
    403: problem(
      'The access token lacks the scope or is restricted to other builds (`build_not_allowed`), the project or its tenant is ' +
        'suspended, or an operator has switched off such events (`switched_off`; the detail has the reason).',
    ),
    404: problem('A session does not exist in the project.'),
    413: problem('The body, the array or an event is too large.'),
    415: problem('The media type or content coding is not supported.'),
    422: problem('The idempotency key was already used with another body.'),
  });
}

function linkedEventsOperation(): object {
  const description =
    'Messages are `linked` and `unlinked`; their data is a LinkedEventMessage. `from` or `Last-Event-ID` with the id of a ' +
    'message resumes after it. If links expired before the client received them, the first message is a `gap` with the ' +
    'missing time range (a LinkedEventGap): read the links of your reports again from `GET /v1/reports/{id}/events`. Payloads keep their bytes, but a CR or CRLF between JSON tokens arrives as LF. The stream ' +
    'has no end.';
  const from =
    '`start` (the oldest stored message of the last 7 days), `end` (only new messages), or the id of a message.';
  return {
    operationId: 'streamLinkedEvents',
    summary: 'Streams the links of the project’s reports and events as server-sent events.',
    description: `Requires the scope \`read\`. ${description}`,
    parameters: [
      { ...query('from', { type: 'string', default: 'start' }), description: from },
      header('Last-Event-ID', 'The id of the last received message. Overrides `from`.'),
    ],
    responses: {
      200: {
        description: 'The stream (WHATWG HTML, section 9.2).',
        content: {
          'text/event-stream': {
            schema: {
              type: 'string',
              contentMediaType: 'application/json',
              contentSchema: { anyOf: [ref('LinkedEventMessage'), ref('LinkedEventGap')] },
            },
          },
        },
      },
      400: problem('`from` or `Last-Event-ID` is not the id of a message.'),
      ...COMMON_RESPONSES,
    },
  };
}
