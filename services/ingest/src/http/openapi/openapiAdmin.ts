/** Builds the OpenAPI 3.1 document of the operators' listener from the types that validate requests. */
import { Backup } from '@questlog/schemas/backups/backup';
import * as admin from '@questlog/schemas/http/admin';
import { AuditPage } from '@questlog/schemas/http/audit';
import { DeadLetterPage, InspectedDeadLetter, ReplayedDeadLetter } from '@questlog/schemas/http/deadLetter';
import { ErasureInput, ErasureOutput } from '@questlog/schemas/http/erasure';
import { DIFFERENCES, LedgerAnswer, VerifyInput } from '@questlog/schemas/http/ledger';
import { Problem } from '@questlog/schemas/http/problem';
import { LinkRetryInput, LinkRetryOutput } from '@questlog/schemas/http/report';
import { SQL_LIMITS } from '../../admin/runSql.ts';
import { acceptedSchema } from './acceptedSchema.ts';
import { deadLetterPaths } from './openapiDeadLetters.ts';
import { backupPaths, erasurePaths } from './openapiJobs.ts';
import {
  answer,
  filter,
  header,
  id,
  MIB,
  PAGE,
  problem,
  ref,
  TIME,
  tooMany,
  UUID_TEXT,
} from './openapiParts.ts';

export function adminApi(): Record<string, unknown> {
  return {
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
      '/admin/tenants': {
        get: listed('Lists all tenants.', 'Tenant'),
        post: created('Creates a tenant.', 'TenantInput', 'Tenant'),
      },
      '/admin/tenants/{id}': {
        patch: changed('Changes the fields of a tenant that the body has.', 'Tenant'),
      },
      '/admin/projects': {
        get: listed('Lists all projects.', 'Project'),
        post: created('Creates a project of a tenant.', 'ProjectInput', 'Project', { 404: NOT_THERE }),
      },
      '/admin/projects/{id}': {
        patch: changed('Changes the fields of a project that the body has.', 'Project'),
      },
      '/admin/projects/{id}/switches': switchOperations(),
      '/admin/projects/{id}/test-event': { post: testEventOperation() },
      '/admin/projects/{id}/reports/{reportId}': { delete: retractOperation() },
      '/admin/tokens': {
        get: listed('Lists all tokens, without their texts.', 'Token'),
        post: written(
          'Creates a token. Its text is only in this response, because Questlog stores only its SHA-256.',
          'TokenInput',
          {
            201: answer('The token.', 'TokenCreated'),
            404: NOT_THERE,
          },
        ),
      },
      '/admin/tokens/{id}': { delete: revokeOperation() },
      '/admin/tokens/{id}/rotate': { post: rotateOperation() },
      '/admin/links/retry': {
        post: written('Looks up reports with unresolved links again.', 'LinkRetryInput', {
          200: answer('Number of reports and links.', 'LinkRetry'),
        }),
      },
      '/admin/sql': {
        post: written(SQL, 'SqlInput', { 200: answer('The result of ClickHouse.', {}) }),
      },
      '/admin/tail': { get: tailOperation() },
      '/admin/lag': { get: lagOperation() },
      '/admin/retention': { get: retentionOperation() },
      '/admin/ledger': { get: ledgerOperation() },
      '/admin/verify': { post: verifyOperation() },
      '/admin/audit': { get: auditOperation() },
      ...deadLetterPaths(COMMON_RESPONSES),
      ...erasurePaths(written, COMMON_RESPONSES),
      ...backupPaths(COMMON_RESPONSES),
      '/admin/uploads/{projectId}/{uploadId}': { get: uploadOperation() },
      '/healthz': { get: unauthenticated('Checks that the process runs. For load balancers.', state('ok')) },
      '/readyz': { get: readyOperation() },
      '/metrics': { get: unauthenticated('Returns metrics in the text format of Prometheus.') },
      '/openapi.json': {
        get: unauthenticated('Returns this API as an OpenAPI 3.1 document.', { type: 'object' }),
      },
    },
    components: {
      securitySchemes: { bearer: { type: 'http', scheme: 'bearer', description: TOKEN } },
      schemas: SCHEMAS,
    },
  };
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
    ...unauthenticated(READY, state('ready', 'warnings')),
    responses: {
      200: answer(
        'The process is ready. `warnings` has problems of other parts.',
        state('ready', 'warnings'),
      ),
      503: answer('The process is not ready.', state('not ready', 'problems')),
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
  Retention: admin.RetentionOutput,
  VerifyInput: acceptedSchema(VerifyInput),
  Ledger: LedgerAnswer,
  Audit: AuditPage,
  DeadLetters: DeadLetterPage,
  DeadLetter: InspectedDeadLetter,
  Replayed: ReplayedDeadLetter,
  // Excludes requests with both `sessionId` and `player`, because the scope of such a request would be ambiguous.
  ErasureInput: { ...ErasureInput, not: { required: ['sessionId', 'player'] } },
  Erasure: ErasureOutput,
  Backup,
  Problem,
};

const COMMON_RESPONSES = {
  401: problem('The admin token is missing or wrong.'),
  429: tooMany('the admin token'),
  417: problem('The `Expect` header is not `100-continue`.'),
  503: problem('A dependency does not answer. Retry after the time in `Retry-After`.'),
};
const NOT_THERE = problem('The id does not exist.');

function switchOperations(): object {
  const tag = { schema: { type: 'string' }, description: 'The ETag of this list, for `If-Match`.' };
  const switches = {
    ...answer('The switches that have not ended.', { type: 'array', items: ref('Switch') }),
    headers: { ETag: tag },
  };
  const ifMatch = 'The `ETag` of the list to replace. If the list has changed since, the response is a 412.';
  const put =
    'Replaces the switches of a project, which reject or sample events. They take effect at every ingest within 2 s.';
  return {
    get: {
      summary: 'Lists the switches of a project that have not ended.',
      parameters: [id],
      responses: { 200: switches, 404: NOT_THERE, ...COMMON_RESPONSES },
    },
    put: {
      ...written(put, 'SwitchInput', {
        200: switches,
        404: NOT_THERE,
        412: problem('The switches have changed.'),
      }),
      parameters: [id, header('If-Match', ifMatch)],
      requestBody: {
        required: true,
        content: { 'application/json': { schema: { ...admin.SwitchesInput, items: ref('SwitchInput') } } },
      },
    },
  };
}

function revokeOperation(): object {
  return {
    summary: 'Revokes a token.',
    parameters: [id],
    responses: { 204: { description: 'The token is no longer valid.' }, 404: NOT_THERE, ...COMMON_RESPONSES },
  };
}

function rotateOperation(): object {
  const operation = written(
    'Replaces a token. The old token stays valid for `overlapSeconds`.',
    'TokenRotation',
    {
      201: answer(
        'The new token. Its text is only in this response. The old token is invalid from `oldExpiresAt` on.',
        'TokenRotated',
      ),
      404: NOT_THERE,
      409: problem('The token was already rotated. The detail names its successor.'),
    },
  );
  const description =
    'The new token has the project and the scopes of the old token, and can retract its reports. If `expiresAt` is omitted, ' +
    'the new token has the same lifetime as the old token had when it was created.';
  return { ...operation, description, parameters: [id] };
}

function testEventOperation(): object {
  return {
    summary: 'Sends an event of the type `questlog.test` for the project, in the same way as a game does.',
    parameters: [id],
    responses: {
      201: answer('The created event.', { type: 'object' }),
      403: problem('A switch of the project rejects such events: `switched_off`.'),
      404: NOT_THERE,
      ...COMMON_RESPONSES,
      429: problem('The project or its tenant exceeds a rate limit: `rate_limited`.'),
    },
  };
}

function retractOperation(): object {
  return {
    summary:
      'Retracts a bug report and its links, whichever token filed it. Repeated requests also return 204.',
    parameters: [id, { ...id, name: 'reportId' }],
    responses: { 204: { description: 'The report is retracted.' }, 404: NOT_THERE, ...COMMON_RESPONSES },
  };
}

function listed(summary: string, name: string): object {
  return {
    summary,
    responses: { 200: answer(summary, { type: 'array', items: ref(name) }), ...COMMON_RESPONSES },
  };
}

function written(summary: string, input: string, responses: object): object {
  return {
    summary,
    requestBody: { required: true, content: { 'application/json': { schema: ref(input) } } },
    responses: {
      400: problem('The body is not valid. The problem lists every invalid or unknown field.'),
      408: problem('The body did not arrive in time.'),
      413: problem('The body is too large.'),
      415: problem('The media type or content coding is not supported.'),
      ...COMMON_RESPONSES,
      ...responses,
    },
  };
}

function created(summary: string, input: string, name: string, refusals: object = {}): object {
  return written(summary, input, {
    201: answer('The created entity.', name),
    200: answer('The entity exists with the same content.', name),
    409: problem('The id is used by an entity with other content.'),
    ...refusals,
  });
}

function changed(summary: string, name: string): object {
  const responses = { 200: answer('The changed entity.', name), 404: NOT_THERE };
  return { ...written(summary, `${name}Patch`, responses), parameters: [id] };
}

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
    summary:
      'Streams new events as server-sent events: at most 100 events per second (`event: events`), and the number of all events ' +
      '(`event: count`).',
    ...{ description, parameters },
    responses: {
      200: { description: 'The stream.', content: { 'text/event-stream': { schema: { type: 'string' } } } },
      400: problem('A parameter is not valid or not known.'),
      404: problem('The project does not exist.'),
      ...COMMON_RESPONSES,
    },
  };
}

function lagOperation(): object {
  return {
    summary:
      'Returns the lag of each consumer group in records, in time, and as a share of the retention time, ' +
      'and the free space on the disk of the data folder.',
    responses: { 200: answer('The lag, at most one second old.', { type: 'object' }), ...COMMON_RESPONSES },
  };
}

function retentionOperation(): object {
  return {
    summary:
      'Returns how long tables, files, and topics are kept, how many bytes they take now, and how many bytes arrive per month.',
    parameters: [filter('project', 'Only data of this project, with its retention days.', UUID_TEXT)],
    responses: {
      200: answer('The retention and its cost.', 'Retention'),
      400: problem('The parameter is not valid.'),
      404: NOT_THERE,
      ...COMMON_RESPONSES,
    },
  };
}

function ledgerOperation(): object {
  return {
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
      ...COMMON_RESPONSES,
    },
  };
}

function verifyOperation(): object {
  const lines = { 'application/x-ndjson': { schema: { type: 'string' } } };
  const kinds = Object.entries(DIFFERENCES).map(([what, sentence]) => `- \`${what}\`: ${sentence}`);
  const operation = written(
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
      ...COMMON_RESPONSES,
    },
  };
}

function uploadOperation(): object {
  const bytes = { 'application/octet-stream': { schema: { type: 'string', format: 'binary' } } };
  return {
    summary:
      'Returns a file of a report. PNG, JPEG, WebP, and GIF files up to 16 MiB have their own media type. All other files are plain text or bytes to ' +
      'download.',
    parameters: [
      { ...id, name: 'projectId' },
      { ...id, name: 'uploadId' },
    ],
    responses: { 200: { description: 'The file.', content: bytes }, 404: NOT_THERE, ...COMMON_RESPONSES },
  };
}

function unauthenticated(summary: string, shape?: object): object {
  const text = { description: 'The metrics.', content: { 'text/plain': { schema: { type: 'string' } } } };
  return {
    summary,
    security: [],
    responses: { 200: shape === undefined ? text : answer('The service answers.', shape) },
  };
}

function state(status: string, details?: string): object {
  const named = { type: 'object', additionalProperties: { type: 'string' } };
  return {
    type: 'object',
    properties: { status: { const: status }, ...(details && { [details]: named }) },
    required: ['status'],
  };
}
