/** The operations of bug reports in the OpenAPI document. */
import { MAX_FINGERPRINT_CHARS } from '@questlog/schemas/http/report';
import { MAX_UPLOAD_BYTES_PER_REPORT } from '@questlog/schemas/http/upload';
import { SEVERITIES } from '@questlog/schemas/topics/reportLinks';
import {
  answer,
  BAD_LIST,
  BAD_PAGE,
  CLOCK_SKEW,
  CODING,
  COMMON_RESPONSES,
  EVENT_PAGE,
  filter,
  id,
  MIB,
  NOT_THERE,
  PAGE,
  PREFER,
  problem,
  read,
  TIME,
  UUID_TEXT,
  WRITE_RESPONSES,
  write,
} from './openapiParts.ts';

const FILTERS = [
  filter('since', 'Received at this time or later: ISO 8601, a plus sign as `%2B`.', TIME),
  filter('until', 'Received before this time.', TIME),
  filter('severity', 'Of this severity.', { type: 'string', enum: SEVERITIES }),
  filter('buildId', 'Of this build.', UUID_TEXT),
  filter('fingerprint', `Of this problem; 1 to ${MAX_FINGERPRINT_CHARS} characters.`, {
    ...{ type: 'string', minLength: 1, maxLength: MAX_FINGERPRINT_CHARS },
  }),
  filter('sessionId', 'Of this session; none where the project does not have it.', UUID_TEXT),
];

export function reportPaths(): Record<string, object> {
  return {
    '/v1/ingest/reports': { post: createOperation() },
    '/v1/reports': {
      get: read(
        'The bug reports of the project, the one received last first; a retracted one stays, with its state. ' +
          '`GET /v1/reports/{id}` has the description, the context, the files and the links too.',
        answer('A page of reports.', 'ReportPage'),
        { parameters: [...FILTERS, ...PAGE], rejections: BAD_LIST },
      ),
    },
    '/v1/reports/{id}': {
      get: read('A bug report with its links, at most 10000.', answer('The report.', 'Report'), {
        parameters: [id],
        rejections: NOT_THERE,
      }),
      delete: {
        summary: 'Retracts a bug report and its links. The report stays readable.',
        description:
          'Scope `reports:write`. Only with the token that filed it (otherwise 403): an operator retracts any. A repeat is ' +
          'a 204 too.',
        parameters: [id],
        responses: {
          204: { description: 'The report is retracted.' },
          ...NOT_THERE,
          ...COMMON_RESPONSES,
          ...WRITE_RESPONSES,
        },
      },
    },
    '/v1/reports/{id}/events': {
      get: read(
        'The stored events that are or were linked to a report, by `occurredAt`.',
        answer('A page of events.', 'ReportEventPage'),
        { parameters: [id, ...EVENT_PAGE], rejections: { ...BAD_PAGE, ...NOT_THERE } },
      ),
    },
  };
}

function createOperation(): object {
  const texts = {
    summary: 'Files a bug report with its content, context, files and events.',
    description:
      'Scope `reports:write`, for its events too. Events of the session inside the report’s window are linked. A repeat ' +
      'needs a `clientRequestId` or an `id`: it is answered 200 with the first ids and stores what is missing. One whose ' +
      'body is not the same stores nothing and is answered with the events that are stored. With a ' +
      '`clientRequestId` the report is kept whatever time took away: an unknown session is left out, a file that is not ' +
      'there is `missing`, of more than 1,000 `eventIds` the last 1,000 count. A 503 with a `Location` means that the ' +
      'report exists without some of its events: repeat the request, with that id where it has no `clientRequestId`. ' +
      `Its files have at most ${MAX_UPLOAD_BYTES_PER_REPORT / MIB} MiB together.`,
    parameters: [PREFER, CODING],
  };
  const headers = {
    Location: { schema: { type: 'string' }, description: 'The report, if it exists.' },
  };
  return write(texts, 'ReportInput', {
    201: { ...answer('The report, its created events, its links.', 'ReportCreated'), headers: CLOCK_SKEW },
    200: answer('The report, filed earlier (`Idempotency-Replayed: true`).', 'ReportCreated'),
    400: problem('The body is not valid. Every bad field and event is named.'),
    404: problem('A session or a file does not exist in the project.'),
    409: problem('The id belongs to a report with other content.'),
    413: problem('The body, the events or one of them is too large.'),
    415: problem('The media type or content coding is not supported.'),
    503: { ...COMMON_RESPONSES[503], headers },
  });
}
