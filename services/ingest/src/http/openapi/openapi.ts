/** OpenAPI 3.1 of the public listener, emitted from the TypeBox types that validate. */
import { BATCH_CAP, EventInputA, EventInputB, EventOutput, EventPage } from '@questlog/schemas/http/event';
import { Problem } from '@questlog/schemas/http/problem';
import { QuotaOutput } from '@questlog/schemas/http/quota';
import {
  LinkedEventMessage,
  ReportCreated,
  ReportEvent,
  ReportEventPage,
  ReportInput,
  ReportLinkOutput,
  ReportOutput,
} from '@questlog/schemas/http/report';
import { SessionInput, SessionOutput } from '@questlog/schemas/http/session';
import type { Revision } from '@questlog/schemas/topics/eventsAccepted';
import {
  answer,
  COMMON,
  header,
  id,
  json,
  NOT_THERE,
  PAGE,
  problem,
  query,
  read,
  ref,
} from './openapiParts.ts';
import { reportPaths } from './openapiReports.ts';

/** @param revision the deployment's default; a project may have the other one. */
export function openApi(revision: Revision): Record<string, unknown> {
  return {
    openapi: '3.1.0',
    info: {
      title: 'Questlog',
      version: '1',
      description: `Telemetry events of games. This deployment serves revision ${revision} unless a project says otherwise.`,
    },
    security: [{ bearer: [] }],
    paths: {
      '/v1/ingest/events': { post: ingestOperation() },
      '/v1/sessions': { post: sessionOperation() },
      '/v1/sessions/{id}': {
        get: read('A session of the project.', answer('The session.', ref('Session')), {
          parameters: [id],
          refusals: NOT_THERE,
        }),
      },
      '/v1/sessions/{id}/events': {
        get: read('The events of a session by `occurredAt`.', answer('A page.', ref('EventPage')), {
          parameters: [id, ...PAGE],
          refusals: { 400: problem('The limit or the cursor is not valid.'), ...NOT_THERE },
        }),
      },
      '/v1/events/{id}': {
        get: read('One event.', answer('The event.', ref('Event')), {
          parameters: [id],
          refusals: NOT_THERE,
        }),
      },
      ...reportPaths(),
      '/v1/linked-events': { get: linkedEventsOperation() },
      '/v1/quota': { get: read('The tenant’s use of its quota.', answer('This month.', ref('Quota'))) },
      '/openapi.json': {
        get: { summary: 'This document.', security: [], responses: { 200: { description: 'It.' } } },
      },
    },
    components: {
      securitySchemes: { bearer: { type: 'http', scheme: 'bearer' } },
      schemas: {
        EventInputA,
        EventInputB,
        Event: EventOutput,
        EventPage,
        SessionInput,
        Session: SessionOutput,
        Quota: QuotaOutput,
        ReportInput,
        Report: ReportOutput,
        ReportCreated,
        ReportLink: ReportLinkOutput,
        ReportEvent,
        ReportEventPage,
        LinkedEventMessage,
        Problem,
      },
    },
  };
}

function ingestOperation(): object {
  const batch = (input: string, maxItems: number) => ({
    type: 'array',
    items: ref(input),
    minItems: 1,
    maxItems,
  });
  const created = { type: 'array', items: ref('Event') };
  return {
    summary: 'Submits one event or a batch of events.',
    description:
      'Scope `events:write`. Nothing of a batch is stored where one element is bad, unless `Prefer` says so.',
    parameters: [
      header('Idempotency-Key', 'A UUIDv7. The same key and body within 24 h are stored once.', {
        type: 'string',
        format: 'uuid',
      }),
      header('Prefer', '`handling=lenient`: store the good elements of a batch, answer 207.'),
      header('Content-Encoding', 'gzip, deflate, br or zstd.'),
    ],
    requestBody: {
      required: true,
      content: json({
        anyOf: [
          ref('EventInputA'),
          batch('EventInputA', BATCH_CAP.A),
          ref('EventInputB'),
          batch('EventInputB', BATCH_CAP.B),
        ],
      }),
    },
    responses: {
      201: answer('The created events, in request order.', created),
      200: answer('The same, of an earlier request with this key (`Idempotency-Replayed: true`).', created),
      207: answer('With `Prefer: handling=lenient`: in request order, each a created event or a problem.', {
        type: 'array',
        items: { anyOf: [ref('Event'), ref('Problem')] },
      }),
      400: problem('The body or an element is not valid; every bad element is named.'),
      404: problem('A session does not exist in the project.'),
      413: problem('The body, the array or an event is too large.'),
      415: problem('Another media type or content coding.'),
      422: problem('The key came with another body before.'),
      ...COMMON,
    },
  };
}

function sessionOperation(): object {
  return {
    summary: 'Registers a session.',
    description: 'Scope `events:write`. The same again is answered 200.',
    requestBody: { required: true, content: json(ref('SessionInput')) },
    responses: {
      201: answer('Registered.', ref('Session')),
      200: answer('It was registered before.', ref('Session')),
      400: problem('The body is not valid.'),
      409: problem('The id is registered with other content.'),
      413: problem('The body is too large.'),
      415: problem('Another media type.'),
      ...COMMON,
    },
  };
}

function linkedEventsOperation(): object {
  const description =
    'Messages `linked` and `unlinked`, their data a LinkedEventMessage; a larger `version` of a ' +
    '`linkId` replaces a smaller one. The id of a message, as `from` or `Last-Event-ID`, goes on behind it. The bytes ' +
    'of a payload are those that were sent, except that a CR or CRLF between its JSON tokens arrives as LF: the ' +
    'framing of server-sent events cannot carry them.';
  const from =
    'What to begin with: `start` (the oldest kept, of the last 7 days), `end` (what comes from now on), or the id of a message.';
  return {
    summary: 'Follows the links of the project’s reports and events, as server-sent events.',
    description: `Scope \`read\`. ${description}`,
    parameters: [
      { ...query('from', { type: 'string', default: 'start' }), description: from },
      header('Last-Event-ID', 'The id of the last message that was received; goes before `from`.'),
    ],
    responses: {
      200: {
        description: 'The stream (WHATWG HTML, section 9.2); it does not end by itself.',
        content: { 'text/event-stream': { schema: { type: 'string' } } },
      },
      400: problem('`from` or `Last-Event-ID` is no id of a message.'),
      ...COMMON,
    },
  };
}
