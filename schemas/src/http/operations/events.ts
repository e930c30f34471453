/** Operations on events and on the tenant's quota. */
import Type from 'typebox';
import { BATCH_CAP, EventInputA, EventInputB, EventOutput, EventPage, LIMITS, MAX_DEPTH } from '../event.ts';
import { Problem } from '../problem.ts';
import { QuotaOutput } from '../quota.ts';
import { LinkedEventGap, LinkedEventMessage } from '../report.ts';
import type { GameOperations } from './operation.ts';
import {
  ANY_TEXT,
  answer,
  BAD_LIST,
  CLOCK_SKEW,
  CODING,
  EVENT_PAGE,
  header,
  MIB,
  NOT_IN_PROJECT,
  PREFER_LENIENT,
  query,
  RATE_LIMIT,
  REPLAYED,
  RETRY_AFTER,
  TIME,
  textHeader,
  UUID_TEXT,
  UUID_V7,
} from './parts.ts';

const batchOf = <T extends Type.TSchema>(schema: T, maxItems: number) =>
  Type.Array(schema, { minItems: 1, maxItems });
const CREATED = Type.Array(EventOutput);

const SAMPLED = textHeader(
  'Questlog-Sampled',
  'Number of answered events that are not stored, because an operator samples events by session.',
  { type: 'string', examples: ['3 of 20'] },
);

const NOTICES = { ...SAMPLED, ...CLOCK_SKEW };

export const EVENTS = {
  createEvents: {
    route: 'POST /v1/ingest/events',
    access: 'events:write',
    summary: 'Submits one event or a batch of events.',
    description:
      'Register the session first with `POST /v1/ingest/sessions`. An invalid element rejects the whole batch, unless the request has ' +
      `\`Prefer: handling=lenient\`. A body may have at most ${LIMITS.maxBodyBytes / MIB} MiB after decompression, and an event ` +
      `${LIMITS.maxEventBytes / 1024} KiB as sent. A payload may have at most ${MAX_DEPTH} levels of nesting.`,
    parameters: [
      header(
        'Idempotency-Key',
        'A UUIDv7. Requests with the same key and body within 24 hours are stored once.',
        UUID_V7,
      ),
      PREFER_LENIENT,
      CODING,
    ],
    body: Type.Union([
      EventInputA,
      batchOf(EventInputA, BATCH_CAP.A),
      EventInputB,
      batchOf(EventInputB, BATCH_CAP.B),
    ]),
    bodyMode: 'unread',
    responses: {
      201: answer('The created events, in request order.', CREATED, {
        headers: NOTICES,
      }),
      200: answer('The events of an earlier request with this key.', CREATED, {
        headers: { ...REPLAYED, ...NOTICES },
      }),
      207: answer(
        'With `handling=lenient`: a created event or a problem for each element, in request order. If some elements exceeded ' +
          'a rate limit (`rate_limited`), the response has the headers of a 429.',
        Type.Array(Type.Union([EventOutput, Problem])),
        { headers: { ...REPLAYED, ...RATE_LIMIT, ...RETRY_AFTER, ...NOTICES } },
      ),
      400: 'The body or an element is not valid. The problem lists every invalid element.',
      403:
        'The access token lacks the scope or is restricted to other builds (`build_not_allowed`), the project or its tenant is ' +
        'suspended, or an operator has switched off such events (`switched_off`; the detail has the reason).',
      404: 'A session does not exist in the project.',
      413: 'The body, the array or an event is too large.',
      422: 'The idempotency key was already used with another body.',
    },
  },
  listEvents: {
    route: 'GET /v1/events',
    access: 'read',
    summary: 'Lists the events of the project, the newest first, by the time at which they were accepted.',
    parameters: [
      query(
        'sessionId',
        UUID_TEXT,
        'Only events of this session. The list is empty if the project does not have the session.',
      ),
      query('eventType', ANY_TEXT, 'Only events of exactly this type.'),
      query(
        'since',
        TIME,
        'Only events with an `occurredAt` at or after this time. Encode a plus sign as `%2B`.',
      ),
      query('until', TIME, 'Only events with an `occurredAt` before this time.'),
      ...EVENT_PAGE,
    ],
    responses: { 200: answer('A page of events.', EventPage), 400: BAD_LIST },
  },
  getEvent: {
    route: 'GET /v1/events/{id}',
    access: 'read',
    summary: 'Returns one event.',
    responses: { 200: answer('The event.', EventOutput), 404: NOT_IN_PROJECT },
  },
  streamLinkedEvents: {
    route: 'GET /v1/linked-events',
    access: 'read',
    summary: 'Streams the links of the project’s reports and events as server-sent events.',
    description:
      'Messages are `linked` and `unlinked`; their data is a LinkedEventMessage. `from` or `Last-Event-ID` with the id of a ' +
      'message resumes after it. If links expired before the client received them, the first message is a `gap` with the ' +
      'missing time range (a LinkedEventGap): read the links of your reports again from `GET /v1/reports/{id}/events`. Payloads keep their bytes, but a CR or CRLF between JSON tokens arrives as LF. The stream ' +
      'has no end.',
    parameters: [
      query(
        'from',
        { type: 'string', default: 'start' },
        '`start` (the oldest stored message of the last 7 days), `end` (only new messages), or the id of a message.',
      ),
      header('Last-Event-ID', 'The id of the last received message. Overrides `from`.'),
    ],
    responses: {
      200: answer(
        'The stream (WHATWG HTML, section 9.2).',
        Type.String({
          contentMediaType: 'application/json',
          contentSchema: { anyOf: [LinkedEventMessage, LinkedEventGap] },
        }),
        { type: 'text/event-stream' },
      ),
      400: '`from` or `Last-Event-ID` is not the id of a message.',
    },
  },
  getQuota: {
    route: 'GET /v1/quota',
    access: 'read',
    summary: 'Returns the tenant’s quota and its use in this month.',
    responses: { 200: answer('The use and the quota.', QuotaOutput) },
  },
} as const satisfies GameOperations;
