/** OpenAPI operations of bug reports. */

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
  REPLAYED,
  read,
  TIME,
  UUID_TEXT,
  WRITE_RESPONSES,
  write,
} from '@questlog/runtime/http/openapi/openapiParts';
import { MAX_FINGERPRINT_CHARS } from '@questlog/schemas/http/report';
import { MAX_UPLOAD_BYTES_PER_REPORT } from '@questlog/schemas/http/upload';
import { SEVERITIES } from '@questlog/schemas/topics/reportLinks';

const FILTERS = [
  filter(
    'since',
    'Only reports that were received at or after this time. Encode a plus sign as `%2B`.',
    TIME,
  ),
  filter('until', 'Only reports that were received before this time.', TIME),
  filter('severity', 'Only reports with this severity.', { type: 'string', enum: SEVERITIES }),
  filter('buildId', 'Only reports of this build.', UUID_TEXT),
  filter('fingerprint', `Only reports with this fingerprint of 1 to ${MAX_FINGERPRINT_CHARS} characters.`, {
    ...{ type: 'string', minLength: 1, maxLength: MAX_FINGERPRINT_CHARS },
  }),
  filter(
    'sessionId',
    'Only reports of this session. The list is empty if the project does not have the session.',
    UUID_TEXT,
  ),
];

export function reportPaths(): Record<string, object> {
  return {
    '/v1/ingest/reports': { post: createOperation() },
    '/v1/reports': {
      get: read(
        'listReports',
        'Lists the bug reports of the project, the last received first, including retracted reports. ' +
          '`GET /v1/reports/{id}` also returns the description, the context, the files, and the links.',
        answer('A page of reports.', 'ReportPage'),
        { parameters: [...FILTERS, ...PAGE], rejections: BAD_LIST },
      ),
    },
    '/v1/reports/{id}': {
      get: read(
        'getReport',
        'Returns a bug report with its links, at most 10,000.',
        answer('The report.', 'Report'),
        {
          parameters: [id],
          rejections: NOT_THERE,
        },
      ),
      delete: {
        operationId: 'retractReport',
        summary: 'Retracts a bug report and its links. The report stays readable.',
        description:
          'Requires the scope `reports:write` and the token that filed the report (otherwise 403). An operator can retract every report. Repeated ' +
          'requests also return 204.',
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
        'listReportEvents',
        'Lists the stored events that are or were linked to a report, by `occurredAt`.',
        answer('A page of events.', 'ReportEventPage'),
        { parameters: [id, ...EVENT_PAGE], rejections: { ...BAD_PAGE, ...NOT_THERE } },
      ),
    },
  };
}

function createOperation(): object {
  const texts = {
    operationId: 'createReport',
    summary: 'Files a bug report with its content, context, files, and events.',
    description:
      'Requires the scope `reports:write`, also for the events. Events of the session in the report’s window are linked. A retry ' +
      'needs a `clientRequestId` or an `id`. It returns 200 with the original ids, and stores missing events. A retry with ' +
      'another body stores nothing and returns the stored events. With a ' +
      '`clientRequestId`, the report is stored even if its data has expired: an unknown session is omitted, an absent file ' +
      'is `missing`, and only the last 1,000 `eventIds` are used. A 503 with a `Location` means that the ' +
      'report exists without some of its events. Send the request again, with that id if it has no `clientRequestId`. ' +
      `The files of a report may have at most ${MAX_UPLOAD_BYTES_PER_REPORT / MIB} MiB in total.`,
    parameters: [PREFER, CODING],
  };
  const headers = {
    Location: { schema: { type: 'string' }, description: 'The address of the report, if it exists.' },
  };
  return write(texts, 'ReportInput', {
    201: {
      ...answer('The report with its created events and its links.', 'ReportCreated'),
      headers: { ...headers, ...CLOCK_SKEW },
    },
    200: {
      ...answer('The report, filed earlier.', 'ReportCreated'),
      headers: { ...headers, ...REPLAYED },
    },
    400: problem('The body is not valid. The problem lists every invalid field and event.'),
    404: problem('A session or a file does not exist in the project.'),
    409: problem('The id belongs to a report with other content.'),
    413: problem('The body, the events, or one of the events is too large.'),
    415: problem('The media type or content coding is not supported.'),
    503: { ...COMMON_RESPONSES[503], headers },
  });
}
