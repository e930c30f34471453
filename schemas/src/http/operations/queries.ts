/** Operations that show the state of Questlog to an operator, and the operation that retries links. */
import Type from 'typebox';
import { RetentionOutput, SQL_LIMITS, SqlInput } from '../admin.ts';
import { AuditPage } from '../audit.ts';
import { EXPORT_HEADERS, ExportChunkInput, ExportPlan, ExportPlanInput } from '../export.ts';
import { LagOutput, TrafficOutput } from '../health.ts';
import { DIFFERENCES, LedgerAnswer, VerifyInput } from '../ledger.ts';
import { LinkRetryInput, LinkRetryOutput } from '../report.ts';
import type { Operations } from './operation.ts';
import {
  ANY_TEXT,
  answer,
  BAD_LIST,
  BYTES,
  emptyAnswer,
  MIB,
  NOT_THERE,
  PAGE,
  query,
  TEXT,
  TIME,
  textHeader,
  UUID_TEXT,
} from './parts.ts';

const CHANGED = 'The log has lost records, or the tables were restored, since the plan.';
const KINDS = Object.entries(DIFFERENCES).map(([what, sentence]) => `- \`${what}\`: ${sentence}`);

export const QUERIES = {
  retryLinks: {
    route: 'POST /admin/links/retry',
    summary: 'Looks up reports with unresolved links again.',
    body: LinkRetryInput,
    responses: { 200: answer('Number of reports and links.', LinkRetryOutput) },
  },
  runSql: {
    route: 'POST /admin/sql',
    summary:
      'Runs one SELECT on the tables of `questlog` with a read-only account. The response is in ClickHouse’s `JSON` ' +
      'format, or in the format of the query’s FORMAT clause. ' +
      `A query may take ${SQL_LIMITS.seconds} s and return ${SQL_LIMITS.rows.toLocaleString('en')} rows and ${SQL_LIMITS.bytes / MIB} MiB. ` +
      'Above these limits and the memory limit of a query, the response is a 400 `query_failed` with ClickHouse’s message. ' +
      'The query is cancelled when the client disconnects. ' +
      `A process runs at most ${SQL_LIMITS.maxConcurrent} queries at a time. Above this limit and limits that queries share, the response is a 503.`,
    body: SqlInput,
    responses: { 200: answer('The result of ClickHouse.', Type.Any()) },
  },
  planExport: {
    route: 'POST /admin/export/plan',
    summary:
      'Divides the rows of a project below the projected offsets into chunks. `questlog export` writes each chunk to a file.',
    body: ExportPlanInput,
    responses: {
      200: answer('The projected offsets and the chunks.', ExportPlan),
      404: NOT_THERE,
      412: CHANGED,
    },
  },
  readExportChunk: {
    route: 'POST /admin/export/chunk',
    summary: 'Returns the rows of a chunk as Parquet with zstd, CSV, or NDJSON.',
    body: ExportChunkInput,
    responses: {
      200: answer('The rows.', BYTES, {
        type: 'application/octet-stream',
        headers: {
          ...textHeader(EXPORT_HEADERS.rows, 'Number of rows.'),
          ...textHeader(EXPORT_HEADERS.state, 'State of the chunk, for `exceptState`.'),
        },
      }),
      204: emptyAnswer('The chunk still has the state `exceptState`.'),
      404: NOT_THERE,
      412: CHANGED,
    },
  },
  streamEvents: {
    route: 'GET /admin/tail',
    summary:
      'Streams new events as server-sent events: at most 100 events per second (`event: events`), and the number of all events ' +
      '(`event: count`).',
    description:
      '`unreadRecords` is the number of records that were skipped so that ingest is not delayed. A payload is a string with the bytes that the game sent.',
    parameters: [
      query('project', UUID_TEXT, 'Only events of this project.'),
      query('type', ANY_TEXT, 'Only events of exactly this type.'),
      query('session', UUID_TEXT, 'Only events of this session.'),
      query('player', ANY_TEXT, 'Only events of sessions of this player.'),
      query('where', ANY_TEXT, 'Only events with this value in the payload: `level=3`, `position.x=1`.'),
    ],
    responses: {
      200: answer('The stream.', TEXT, { type: 'text/event-stream' }),
      400: 'A parameter is not valid or not known.',
      404: 'The project does not exist.',
    },
  },
  getLag: {
    route: 'GET /admin/lag',
    summary:
      'Returns the free disk space of the data folder, and the lag of each consumer group: ' +
      'in records, in time, and as a share of the retention time.',
    responses: { 200: answer('The lag, at most one second old.', LagOutput) },
  },
  getTraffic: {
    route: 'GET /admin/traffic',
    summary:
      'Returns the memory of the process, the number of open dead letters, and counts since the start of the process: ' +
      'accepted events, requests, and durations of requests. With several workers, the sum of all workers.',
    responses: { 200: answer('The totals.', TrafficOutput) },
  },
  getRetention: {
    route: 'GET /admin/retention',
    summary:
      'Returns how long tables, files, and topics are kept, how many bytes they take now, and how many bytes arrive per month.',
    parameters: [query('project', UUID_TEXT, 'Only data of this project, with its retention days.')],
    responses: {
      200: answer('The retention and its cost.', RetentionOutput),
      400: 'The parameter is not valid.',
      404: NOT_THERE,
    },
  },
  getLedger: {
    route: 'GET /admin/ledger',
    summary:
      'Returns the ledger: the received, logged, and projected events by tenant and minute, the newest minutes first.',
    parameters: [
      query('from', TIME, 'Start of the time range. Default: one hour ago.'),
      query('to', TIME, 'End of the time range, exclusive.'),
      query('tenant', UUID_TEXT, 'Only entries of this tenant.'),
    ],
    responses: {
      200: answer('The ledger. It lacks the last seconds of an ingest that was killed.', LedgerAnswer),
      400: 'A parameter is not valid.',
    },
  },
  verify: {
    route: 'POST /admin/verify',
    summary:
      'Compares the records of a time range in the log with the rows in ClickHouse, and returns the differences.',
    description: `Reads at most 4 MiB of the log per second. Kinds of differences:\n\n${KINDS.join('\n')}`,
    body: VerifyInput,
    responses: {
      200: answer(
        'One JSON object per line. Its `kind` is progress or difference, and the last one is summary or failed.',
        TEXT,
        { type: 'application/x-ndjson' },
      ),
      409: 'A verification is already running in this process.',
    },
  },
  listAudit: {
    route: 'GET /admin/audit',
    summary:
      'Lists the changes of operators and the rejected requests to this API, the newest first. An entry has the actor, the action, the values before and after, and the address.',
    parameters: [
      query('since', TIME, 'Only requests at or after this time.'),
      query('until', TIME, 'Only requests before this time.'),
      query(
        'actor',
        { type: 'string', minLength: 1, maxLength: 100 },
        'Only requests of actors that start with this text: `console`, `token:1f3a`.',
      ),
      query('project', UUID_TEXT, 'Only requests about this project.'),
      query('tenant', UUID_TEXT, 'Only requests about this tenant or its projects.'),
      ...PAGE,
    ],
    responses: {
      200: answer('The entries in ClickHouse. Entries of the last second can be missing.', AuditPage),
      400: BAD_LIST,
    },
  },
} as const satisfies Operations;
