/** Operations on bug reports. */

import { SEVERITIES } from '../../topics/reportLinks.ts';
import { PROBLEM_TYPE, Problem } from '../problem.ts';
import {
  MAX_FINGERPRINT_CHARS,
  ReportCreated,
  ReportEventPage,
  ReportInput,
  ReportOutput,
  ReportPage,
} from '../report.ts';
import { MAX_UPLOAD_BYTES_PER_REPORT } from '../upload.ts';
import { acceptedSchema } from './acceptedSchema.ts';
import type { GameOperations } from './operation.ts';
import {
  answer,
  BAD_LIST,
  BAD_PAGE,
  CLOCK_SKEW,
  CODING,
  EVENT_PAGE,
  emptyAnswer,
  MIB,
  NO_ANSWER,
  NOT_IN_PROJECT,
  PAGE,
  PREFER,
  query,
  REPLAYED,
  TIME,
  textHeader,
  UUID_TEXT,
} from './parts.ts';

const REPORT_RULES = {
  allOf: [
    {
      description: 'A report must have at least one of these fields.',
      anyOf: [
        { required: ['report'], properties: { report: { type: 'object' } } },
        { required: ['sessionId'], properties: { sessionId: { type: 'string', minLength: 1 } } },
        { required: ['events'], properties: { events: { type: 'array', minItems: 1 } } },
        { required: ['eventIds'], properties: { eventIds: { type: 'array', minItems: 1 } } },
      ],
    },
    {
      description:
        'A `clientRequestId` determines the id, so a new report must not have both `clientRequestId` and `id`.',
      anyOf: [
        { properties: { id: { enum: [null, ''] } } },
        { properties: { clientRequestId: { enum: [null, ''] } } },
      ],
    },
  ],
};
export const ShownReportInput = { ...acceptedSchema(ReportInput, true), ...REPORT_RULES };

const LOCATION = textHeader('Location', 'The address of the report, if it exists.');

export const REPORTS = {
  createReport: {
    route: 'POST /v1/ingest/reports',
    access: 'reports:write',
    summary: 'Files a bug report with its content, context, files, and events.',
    description:
      'The events of the report need no other scope. Events of the session in the report’s window are linked. A retry ' +
      'needs a `clientRequestId` or an `id`. It returns 200 with the original ids, and stores missing events. A retry with ' +
      'another body stores nothing and returns the stored events. With a ' +
      '`clientRequestId`, the report is stored even if its data has expired: an unknown session is omitted, an absent file ' +
      'is `missing`, and only the last 1,000 `eventIds` are used. A 503 with a `Location` means that the ' +
      'report exists without some of its events. Send the request again, with that id if it has no `clientRequestId`. ' +
      `The files of a report may have at most ${MAX_UPLOAD_BYTES_PER_REPORT / MIB} MiB in total.`,
    parameters: [PREFER, CODING],
    body: ReportInput,
    bodyMode: 'unread',
    shownBody: ShownReportInput,
    responses: {
      201: answer('The report with its created events and its links.', ReportCreated, {
        headers: { ...LOCATION, ...CLOCK_SKEW },
      }),
      200: answer('The report, filed earlier.', ReportCreated, {
        headers: { ...LOCATION, ...REPLAYED, ...CLOCK_SKEW },
      }),
      400: 'The body is not valid. The problem lists every invalid field and event.',
      404: 'A session or a file does not exist in the project.',
      409: 'The id belongs to a report with other content.',
      413: 'The body, the events, or one of the events is too large.',
      503: answer(NO_ANSWER, Problem, { headers: LOCATION, type: PROBLEM_TYPE }),
    },
  },
  listReports: {
    route: 'GET /v1/reports',
    access: 'read',
    summary:
      'Lists the bug reports of the project, the last received first, including retracted reports. ' +
      '`GET /v1/reports/{id}` also returns the description, the context, the files, and the links.',
    parameters: [
      query(
        'since',
        TIME,
        'Only reports that were received at or after this time. Encode a plus sign as `%2B`.',
      ),
      query('until', TIME, 'Only reports that were received before this time.'),
      query('severity', { type: 'string', enum: SEVERITIES }, 'Only reports with this severity.'),
      query('buildId', UUID_TEXT, 'Only reports of this build.'),
      query(
        'fingerprint',
        { type: 'string', minLength: 1, maxLength: MAX_FINGERPRINT_CHARS },
        `Only reports with this fingerprint of 1 to ${MAX_FINGERPRINT_CHARS} characters.`,
      ),
      query(
        'sessionId',
        UUID_TEXT,
        'Only reports of this session. The list is empty if the project does not have the session.',
      ),
      ...PAGE,
    ],
    responses: { 200: answer('A page of reports.', ReportPage), 400: BAD_LIST },
  },
  getReport: {
    route: 'GET /v1/reports/{id}',
    access: 'read',
    summary: 'Returns a bug report with its links, at most 10,000.',
    responses: { 200: answer('The report.', ReportOutput), 404: NOT_IN_PROJECT },
  },
  retractReport: {
    route: 'DELETE /v1/reports/{id}',
    access: 'reports:write',
    summary: 'Retracts a bug report and its links. The report stays readable.',
    description:
      'Only the token that filed the report can retract it (otherwise 403). An operator can retract every report. Repeated requests also ' +
      'return 204.',
    responses: { 204: emptyAnswer('The report is retracted.'), 404: NOT_IN_PROJECT },
  },
  listReportEvents: {
    route: 'GET /v1/reports/{id}/events',
    access: 'read',
    summary: 'Lists the stored events that are or were linked to a report, by `occurredAt`.',
    parameters: EVENT_PAGE,
    responses: {
      200: answer('A page of events.', ReportEventPage),
      400: BAD_PAGE,
      404: NOT_IN_PROJECT,
    },
  },
} as const satisfies GameOperations;
