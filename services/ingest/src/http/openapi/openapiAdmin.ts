/** OpenAPI 3.1 of the operators' listener, emitted from the TypeBox types that validate. */
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
        'Never on a public port. The token is the admin token; the cookie of somebody who signed in counts as it, for a ' +
        'change only from a page of the console (403). A `Host` that the listener does not go by is a 421, except for ' +
        'health and metrics.',
    },
    security: [{ bearer: [] }],
    paths: {
      '/admin/tenants': {
        get: listed('All tenants.', 'Tenant'),
        post: created('Creates a tenant.', 'TenantInput', 'Tenant'),
      },
      '/admin/tenants/{id}': { patch: changed('Changes the given fields of a tenant.', 'Tenant') },
      '/admin/projects': {
        get: listed('All projects.', 'Project'),
        post: created('Creates a project of a tenant.', 'ProjectInput', 'Project', { 404: NOT_THERE }),
      },
      '/admin/projects/{id}': { patch: changed('Changes the given fields of a project.', 'Project') },
      '/admin/projects/{id}/switches': switchOperations(),
      '/admin/projects/{id}/test-event': { post: testEventOperation() },
      '/admin/projects/{id}/reports/{reportId}': { delete: retractOperation() },
      '/admin/tokens': {
        get: listed('All tokens, without their secrets.', 'Token'),
        post: written('Creates a token, shown once and kept as SHA-256.', 'TokenInput', {
          201: answer('The token.', 'TokenCreated'),
          404: NOT_THERE,
        }),
      },
      '/admin/tokens/{id}': { delete: revokeOperation() },
      '/admin/tokens/{id}/rotate': { post: rotateOperation() },
      '/admin/links/retry': {
        post: written('Looks up reports with unresolved links again, all or filtered.', 'LinkRetryInput', {
          200: answer('How many.', 'LinkRetry'),
        }),
      },
      '/admin/sql': {
        post: written(SQL, 'SqlInput', { 200: answer('The rows and what ClickHouse says of them.', {}) }),
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
      '/healthz': { get: unauthenticated('The process runs. For load balancers.', state('ok')) },
      '/readyz': { get: readyOperation() },
      '/metrics': { get: unauthenticated('Figures in Prometheus text.') },
      '/openapi.json': { get: unauthenticated('This API as OpenAPI 3.1.', { type: 'object' }) },
    },
    components: {
      securitySchemes: { bearer: { type: 'http', scheme: 'bearer', description: TOKEN } },
      schemas: SCHEMAS,
    },
  };
}

const TOKEN =
  'The admin token. After `npm start` it is `adminToken` in `.data/dev-credentials.json`; `QUESTLOG_ADMIN_TOKEN` sets it.';
const SQL =
  'Asks one SELECT over the tables of `questlog`, by an account that only reads. The answer is ClickHouse’s own `JSON` ' +
  'format, or the one that the query’s FORMAT clause names. ' +
  `At most ${SQL_LIMITS.seconds} s, ${SQL_LIMITS.rows.toLocaleString('en')} rows and ${SQL_LIMITS.bytes / MIB} MiB of result: ` +
  'above that, and above the memory limit of a query, the answer is a 400 `query_failed` with ClickHouse’s text. ' +
  'The query is cancelled when the client disconnects. ' +
  `A process runs ${SQL_LIMITS.maxConcurrent} queries at a time: above that, and above limits that queries share, the answer is a 503.`;
const READY =
  'Its consumers progress. An ingest without the log or ClickHouse only warns. For rollouts and alerts.';

function readyOperation() {
  return {
    ...unauthenticated(READY, state('ready', 'warnings')),
    responses: {
      200: answer('Ready; `warnings` name what is wrong elsewhere.', state('ready', 'warnings')),
      503: answer('Not ready.', state('not ready', 'problems')),
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
  // Which of the two is meant nobody can tell.
  ErasureInput: { ...ErasureInput, not: { required: ['sessionId', 'player'] } },
  Erasure: ErasureOutput,
  Backup,
  Problem,
};

const COMMON_RESPONSES = {
  401: problem('This is not the admin token.'),
  429: tooMany('the admin token'),
  417: problem('`Expect` says something other than `100-continue`.'),
  503: problem('A dependency does not answer. `Retry-After` says when to retry.'),
};
const NOT_THERE = problem('The id does not exist.');

function switchOperations(): object {
  const tag = { schema: { type: 'string' }, description: 'Of this list, for `If-Match`.' };
  const switches = {
    ...answer('Those that have not ended.', { type: 'array', items: ref('Switch') }),
    headers: { ETag: tag },
  };
  const ifMatch =
    'The `ETag` of the list that is to be replaced: a 412 where somebody has changed it meanwhile.';
  const put =
    'Replaces the switches of a project, which refuse or sample events. Every ingest knows them within 2 s.';
  return {
    get: {
      summary: 'The switches of a project that have not ended.',
      parameters: [id],
      responses: { 200: switches, 404: NOT_THERE, ...COMMON_RESPONSES },
    },
    put: {
      ...written(put, 'SwitchInput', { 200: switches, 404: NOT_THERE, 412: problem('It has changed.') }),
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
    responses: { 204: { description: 'No request has it any more.' }, 404: NOT_THERE, ...COMMON_RESPONSES },
  };
}

function rotateOperation(): object {
  const operation = written(
    'Makes a token that takes the place of another, which goes on for so many seconds.',
    'TokenRotation',
    {
      201: answer('The new token, shown once. From `oldExpiresAt` on the old one is a 401.', 'TokenRotated'),
      404: NOT_THERE,
      409: problem('It was rotated before: the detail names its successor.'),
    },
  );
  const description =
    'It has the project and the scopes of the old one, and retracts what that has filed. `expiresAt` is its own; omitted, ' +
    'it lives as long as the old one was made for.';
  return { ...operation, description, parameters: [id] };
}

function testEventOperation(): object {
  return {
    summary:
      'Sends an event of the type `questlog.test` as the project, by the way that a game’s events take.',
    parameters: [id],
    responses: {
      201: answer('The created event.', { type: 'object' }),
      403: problem('A switch of the project refuses such events: `switched_off`.'),
      404: NOT_THERE,
      ...COMMON_RESPONSES,
      429: problem('The project or its tenant sends faster than its limit: `rate_limited`.'),
    },
  };
}

function retractOperation(): object {
  return {
    summary: 'Retracts a bug report and its links, whoever filed it. A repeat is a 204 too.',
    parameters: [id, { ...id, name: 'reportId' }],
    responses: { 204: { description: 'Retracted.' }, 404: NOT_THERE, ...COMMON_RESPONSES },
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
      400: problem('The body is not valid. Every bad field is named, also one that nobody knows.'),
      408: problem('The body did not come in time.'),
      413: problem('The body is too large.'),
      415: problem('The media type or content coding is not supported.'),
      ...COMMON_RESPONSES,
      ...responses,
    },
  };
}

function created(summary: string, input: string, name: string, refusals: object = {}): object {
  return written(summary, input, {
    201: answer('As it is now.', name),
    200: answer('It was there, with the same content.', name),
    409: problem('The id is taken by other content.'),
    ...refusals,
  });
}

function changed(summary: string, name: string): object {
  const responses = { 200: answer('As it is now.', name), 404: NOT_THERE };
  return { ...written(summary, `${name}Patch`, responses), parameters: [id] };
}

/** The console serves it on this listener. */
function tailOperation(): object {
  const description =
    '`unreadRecords` were not looked into, to leave ingest its time. A payload is a string: the bytes as the game sent them.';
  const parameters = [
    filter('project', 'Of this project.', UUID_TEXT),
    filter('type', 'Of this type, to the letter.', { type: 'string' }),
    filter('session', 'Of this session.', UUID_TEXT),
    filter('player', 'Of the sessions of this player.', { type: 'string' }),
    filter('where', 'With this in the payload: `level=3`, `position.x=1`.', { type: 'string' }),
  ];
  return {
    summary:
      'The events of now as server-sent events: at most 100 a second (`event: events`), and how many there were ' +
      '(`event: count`).',
    ...{ description, parameters },
    responses: {
      200: { description: 'The stream.', content: { 'text/event-stream': { schema: { type: 'string' } } } },
      400: problem('A parameter is not valid, or not known.'),
      404: problem('There is no such project.'),
      ...COMMON_RESPONSES,
    },
  };
}

function lagOperation(): object {
  return {
    summary:
      'How far each consumer group is behind the log, as records, as time and as a share of what the log keeps, ' +
      'and the disk of the data folder.',
    responses: { 200: answer('As it was within the last second.', { type: 'object' }), ...COMMON_RESPONSES },
  };
}

function retentionOperation(): object {
  return {
    summary: 'How long tables, files and topics are kept, and what they cost in bytes: now, and a month.',
    parameters: [filter('project', 'Of this project, with its days.', UUID_TEXT)],
    responses: {
      200: answer('As it is now.', 'Retention'),
      400: problem('The parameter is not valid.'),
      404: NOT_THERE,
      ...COMMON_RESPONSES,
    },
  };
}

function ledgerOperation(): object {
  return {
    summary:
      'What came in by tenant and minute, what the log took, and what became of it: the newest minutes first.',
    parameters: [
      filter('from', 'From this time on, the last hour unless given.', TIME),
      filter('to', 'Before this time.', TIME),
      filter('tenant', 'Of this tenant.', UUID_TEXT),
    ],
    responses: {
      200: answer('The books. An ingest that was killed lacks its last seconds in them.', 'Ledger'),
      400: problem('A parameter is not valid.'),
      ...COMMON_RESPONSES,
    },
  };
}

function verifyOperation(): object {
  const lines = { 'application/x-ndjson': { schema: { type: 'string' } } };
  const kinds = Object.entries(DIFFERENCES).map(([what, sentence]) => `- \`${what}\`: ${sentence}`);
  const operation = written(
    'Recounts a time, record by record, from the log and from ClickHouse, and tells what differs.',
    'VerifyInput',
    {
      200: {
        description: 'A JSON object a line, by `kind`: progress, difference; last summary or failed.',
        content: lines,
      },
      409: problem('This process verifies already.'),
    },
  );
  return {
    ...operation,
    description: `At most 4 MiB of the log a second. What may differ:\n\n${kinds.join('\n')}`,
  };
}

function auditOperation(): object {
  return {
    summary:
      'What operators changed and who was refused, the newest first: who, what, before, after, from where.',
    parameters: [
      filter('since', 'Asked from this time on.', TIME),
      filter('until', 'Asked before this time.', TIME),
      filter('actor', 'By an actor that begins so: `console`, `token:1f3a`.', {
        ...{ type: 'string', minLength: 1, maxLength: 100 },
      }),
      filter('project', 'About this project.', UUID_TEXT),
      filter('tenant', 'About this tenant, or one of its projects.', UUID_TEXT),
      ...PAGE,
    ],
    responses: {
      200: answer('What ClickHouse has by now: normally all but the last second.', 'Audit'),
      400: problem('A parameter is not valid: the detail names it and what it may be.'),
      ...COMMON_RESPONSES,
    },
  };
}

function uploadOperation(): object {
  const bytes = { 'application/octet-stream': { schema: { type: 'string', format: 'binary' } } };
  return {
    summary:
      'A file of a report: PNG, JPEG, WebP and GIF up to 16 MiB as themselves, all else as plain text or as bytes, to be ' +
      'downloaded.',
    parameters: [
      { ...id, name: 'projectId' },
      { ...id, name: 'uploadId' },
    ],
    responses: { 200: { description: 'The file.', content: bytes }, 404: NOT_THERE, ...COMMON_RESPONSES },
  };
}

/** Asks for no token. */
function unauthenticated(summary: string, shape?: object): object {
  const text = { description: 'The figures.', content: { 'text/plain': { schema: { type: 'string' } } } };
  return {
    summary,
    security: [],
    responses: { 200: shape === undefined ? text : answer('So it is.', shape) },
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
