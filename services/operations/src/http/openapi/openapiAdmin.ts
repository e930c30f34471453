/** Builds the OpenAPI 3.1 document of the operators' listener from the types that validate requests. */

import { acceptedSchema } from '@questlog/runtime/http/openapi/acceptedSchema';
import { completeDocument } from '@questlog/runtime/http/openapi/completeDocument';
import {
  answer,
  filter,
  id,
  MIB,
  PAGE,
  problem,
  TIME,
  UUID_TEXT,
} from '@questlog/runtime/http/openapi/openapiParts';
import { Backup } from '@questlog/schemas/backups/backup';
import * as admin from '@questlog/schemas/http/admin';
import { AuditPage } from '@questlog/schemas/http/audit';
import { DeadLetterPage, InspectedDeadLetter, ReplayedDeadLetter } from '@questlog/schemas/http/deadLetter';
import { ErasureInput, ErasureOutput } from '@questlog/schemas/http/erasure';
import { LagOutput, Readiness, TrafficOutput } from '@questlog/schemas/http/health';
import { DIFFERENCES, LedgerAnswer, VerifyInput } from '@questlog/schemas/http/ledger';
import { Problem } from '@questlog/schemas/http/problem';
import { LinkRetryInput, LinkRetryOutput } from '@questlog/schemas/http/report';
import { SQL_LIMITS } from '../../sql/runSql.ts';
import { ADMIN_RESPONSES, NOT_THERE, written } from './openapiAdminParts.ts';
import { deadLetterPaths } from './openapiDeadLetters.ts';
import { directoryPaths } from './openapiDirectory.ts';
import { backupPaths, erasurePaths } from './openapiJobs.ts';

export function adminApi(): Record<string, unknown> {
  return completeDocument({
    openapi: '3.1.0',
    info: {
      title: 'Questlog for operators',
      version: '1',
      description:
        'Never expose this API on a public port. Requests need the admin token or the cookie of a signed-in operator. With a cookie, a ' +
        'change must come from a page of the console (otherwise 403). A `Host` that is not allowed is a 421, except for ' +
        'health and metrics.',
    },
    security: [{ bearer: [] }],
    paths: {
      ...directoryPaths(),
      '/admin/links/retry': {
        post: written('retryLinks', 'Looks up reports with unresolved links again.', 'LinkRetryInput', {
          200: answer('Number of reports and links.', 'LinkRetry'),
        }),
      },
      '/admin/sql': {
        post: written('runSql', SQL, 'SqlInput', { 200: answer('The result of ClickHouse.', {}) }),
      },
      '/admin/tail': { get: tailOperation() },
      '/admin/lag': { get: lagOperation() },
      '/admin/traffic': { get: trafficOperation() },
      '/admin/retention': { get: retentionOperation() },
      '/admin/ledger': { get: ledgerOperation() },
      '/admin/verify': { post: verifyOperation() },
      '/admin/audit': { get: auditOperation() },
      ...deadLetterPaths(),
      ...erasurePaths(),
      ...backupPaths(),
      '/admin/uploads/{projectId}/{uploadId}': { get: uploadOperation() },
      '/healthz': {
        get: unauthenticated('getHealth', 'Checks that the process runs. For load balancers.', {
          ...{ type: 'object', properties: { status: { const: 'ok' } }, required: ['status'] },
        }),
      },
      '/readyz': { get: readyOperation() },
      '/metrics': { get: unauthenticated('getMetrics', 'Returns metrics in the text format of Prometheus.') },
      '/openapi.json': {
        get: unauthenticated('getOpenApi', 'Returns this API as an OpenAPI 3.1 document.', {
          type: 'object',
        }),
      },
    },
    components: {
      securitySchemes: { bearer: { type: 'http', scheme: 'bearer', description: TOKEN } },
      schemas: SCHEMAS,
    },
  });
}

const TOKEN =
  'The admin token. After `npm start`, it is `adminToken` in `.data/dev-credentials.json`. `QUESTLOG_ADMIN_TOKEN` sets it.';
const SQL =
  'Runs one SELECT on the tables of `questlog` with a read-only account. The response is in ClickHouse’s `JSON` ' +
  'format, or in the format of the query’s FORMAT clause. ' +
  `A query may take ${SQL_LIMITS.seconds} s and return ${SQL_LIMITS.rows.toLocaleString('en')} rows and ${SQL_LIMITS.bytes / MIB} MiB. ` +
  'Above these limits and the memory limit of a query, the response is a 400 `query_failed` with ClickHouse’s message. ' +
  'The query is cancelled when the client disconnects. ' +
  `A process runs at most ${SQL_LIMITS.maxConcurrent} queries at a time. Above this limit and limits that queries share, the response is a 503.`;
const READY =
  'Checks that the consumers of the process make progress. If ingest cannot reach the log or ClickHouse, the response only has a warning. For rollouts and alerts.';

function readyOperation() {
  return {
    ...unauthenticated('getReadiness', READY),
    responses: {
      200: answer('The process is ready. `warnings` has problems of other parts.', 'Readiness'),
      417: ADMIN_RESPONSES[417],
      503: answer('The process is not ready.', 'Readiness'),
    },
  };
}

const SCHEMAS = {
  TenantInput: acceptedSchema(admin.TenantInput),
  TenantPatch: acceptedSchema(admin.TenantPatch),
  Tenant: admin.TenantOutput,
  ProjectInput: acceptedSchema(admin.ProjectInput),
  ProjectPatch: acceptedSchema(admin.ProjectPatch),
  Project: admin.ProjectOutput,
  SwitchInput: acceptedSchema(admin.SwitchInput),
  Switch: admin.SwitchOutput,
  TokenInput: acceptedSchema(admin.TokenInput),
  TokenCreated: admin.TokenCreated,
  TokenRotation: acceptedSchema(admin.TokenRotation),
  TokenRotated: admin.TokenRotated,
  Token: admin.TokenOutput,
  LinkRetryInput: acceptedSchema(LinkRetryInput),
  LinkRetry: LinkRetryOutput,
  SqlInput: acceptedSchema(admin.SqlInput),
  Readiness,
  Lag: LagOutput,
  Traffic: TrafficOutput,
  Retention: admin.RetentionOutput,
  VerifyInput: acceptedSchema(VerifyInput),
  Ledger: LedgerAnswer,
  Audit: AuditPage,
  DeadLetters: DeadLetterPage,
  DeadLetter: InspectedDeadLetter,
  Replayed: ReplayedDeadLetter,
  // Excludes requests with both `sessionId` and `player`, because the scope of such a request would be ambiguous.
  ErasureInput: {
    ...ErasureInput,
    not: { properties: { sessionId: {}, player: {} }, required: ['sessionId', 'player'] },
  },
  Erasure: ErasureOutput,
  Backup,
  Problem,
};

function tailOperation(): object {
  const description =
    '`unreadRecords` is the number of records that were skipped so that ingest is not delayed. A payload is a string with the bytes that the game sent.';
  const parameters = [
    filter('project', 'Only events of this project.', UUID_TEXT),
    filter('type', 'Only events of exactly this type.', { type: 'string' }),
    filter('session', 'Only events of this session.', UUID_TEXT),
    filter('player', 'Only events of sessions of this player.', { type: 'string' }),
    filter('where', 'Only events with this value in the payload: `level=3`, `position.x=1`.', {
      type: 'string',
    }),
  ];
  return {
    operationId: 'streamEvents',
    summary:
      'Streams new events as server-sent events: at most 100 events per second (`event: events`), and the number of all events ' +
      '(`event: count`).',
    ...{ description, parameters },
    responses: {
      200: { description: 'The stream.', content: { 'text/event-stream': { schema: { type: 'string' } } } },
      400: problem('A parameter is not valid or not known.'),
      404: problem('The project does not exist.'),
      ...ADMIN_RESPONSES,
    },
  };
}

function lagOperation(): object {
  return {
    operationId: 'getLag',
    summary:
      'Returns the lag of each consumer group in records, in time, and as a share of the retention time, ' +
      'and the free space on the disk of the data folder.',
    responses: { 200: answer('The lag, at most one second old.', 'Lag'), ...ADMIN_RESPONSES },
  };
}

function trafficOperation(): object {
  return {
    operationId: 'getTraffic',
    summary:
      'Returns the number of accepted events, the number of requests and their durations since the start of the process, ' +
      'the number of open dead letters, and the memory. With several workers, the sum of all workers.',
    responses: { 200: answer('The totals.', 'Traffic'), ...ADMIN_RESPONSES },
  };
}

function retentionOperation(): object {
  return {
    operationId: 'getRetention',
    summary:
      'Returns how long tables, files, and topics are kept, how many bytes they take now, and how many bytes arrive per month.',
    parameters: [filter('project', 'Only data of this project, with its retention days.', UUID_TEXT)],
    responses: {
      200: answer('The retention and its cost.', 'Retention'),
      400: problem('The parameter is not valid.'),
      404: NOT_THERE,
      ...ADMIN_RESPONSES,
    },
  };
}

function ledgerOperation(): object {
  return {
    operationId: 'getLedger',
    summary:
      'Returns the ledger: the received, logged, and projected events by tenant and minute, the newest minutes first.',
    parameters: [
      filter('from', 'Start of the time range. Default: one hour ago.', TIME),
      filter('to', 'End of the time range, exclusive.', TIME),
      filter('tenant', 'Only entries of this tenant.', UUID_TEXT),
    ],
    responses: {
      200: answer('The ledger. It lacks the last seconds of an ingest that was killed.', 'Ledger'),
      400: problem('A parameter is not valid.'),
      ...ADMIN_RESPONSES,
    },
  };
}

function verifyOperation(): object {
  const lines = { 'application/x-ndjson': { schema: { type: 'string' } } };
  const kinds = Object.entries(DIFFERENCES).map(([what, sentence]) => `- \`${what}\`: ${sentence}`);
  const operation = written(
    'verify',
    'Compares the records of a time range in the log with the rows in ClickHouse, and returns the differences.',
    'VerifyInput',
    {
      200: {
        description:
          'One JSON object per line. Its `kind` is progress or difference, and the last one is summary or failed.',
        content: lines,
      },
      409: problem('A verification is already running in this process.'),
    },
  );
  return {
    ...operation,
    description: `Reads at most 4 MiB of the log per second. Kinds of differences:\n\n${kinds.join('\n')}`,
  };
}

function auditOperation(): object {
  return {
    operationId: 'listAudit',
    summary:
      'Lists the changes of operators and the rejected requests to this API, the newest first. An entry has the actor, the action, the values before and after, and the address.',
    parameters: [
      filter('since', 'Only requests at or after this time.', TIME),
      filter('until', 'Only requests before this time.', TIME),
      filter('actor', 'Only requests of actors that start with this text: `console`, `token:1f3a`.', {
        ...{ type: 'string', minLength: 1, maxLength: 100 },
      }),
      filter('project', 'Only requests about this project.', UUID_TEXT),
      filter('tenant', 'Only requests about this tenant or its projects.', UUID_TEXT),
      ...PAGE,
    ],
    responses: {
      200: answer('The entries in ClickHouse. Entries of the last second can be missing.', 'Audit'),
      400: problem('A parameter is not valid. The detail names the parameter and its valid values.'),
      ...ADMIN_RESPONSES,
    },
  };
}

function uploadOperation(): object {
  const bytes = { 'application/octet-stream': { schema: { type: 'string', format: 'binary' } } };
  return {
    operationId: 'getUpload',
    summary:
      'Returns a file of a report. PNG, JPEG, WebP, and GIF files up to 16 MiB have their own media type. All other files are plain text or bytes to ' +
      'download.',
    parameters: [
      { ...id, name: 'projectId' },
      { ...id, name: 'uploadId' },
    ],
    responses: { 200: { description: 'The file.', content: bytes }, 404: NOT_THERE, ...ADMIN_RESPONSES },
  };
}

function unauthenticated(operationId: string, summary: string, shape?: object): object {
  const text = { description: 'The metrics.', content: { 'text/plain': { schema: { type: 'string' } } } };
  return {
    operationId,
    summary,
    security: [],
    responses: {
      200: shape === undefined ? text : answer('The service answers.', shape),
      417: ADMIN_RESPONSES[417],
    },
  };
}
