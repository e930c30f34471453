/** Operations on tenants, projects, tokens, and switches. */
import Type from 'typebox';
import {
  ProjectInput,
  ProjectOutput,
  ProjectPatch,
  ReaderCreated,
  ReaderInput,
  ReaderOutput,
  SwitchesInput,
  SwitchOutput,
  TenantInput,
  TenantOutput,
  TenantPatch,
  TokenCreated,
  TokenInput,
  TokenOutput,
  TokenRotated,
  TokenRotation,
} from '../admin.ts';
import type { Operations } from './operation.ts';
import { ANY_OBJECT, answer, emptyAnswer, header, NOT_THERE, textHeader } from './parts.ts';

const CREATED = 'The created entity.';
const EXISTS = 'The entity exists with the same content.';
const CONFLICT = 'The id is used by an entity with other content.';
const SWITCHES = answer('The switches that have not ended.', Type.Array(SwitchOutput), {
  headers: textHeader('ETag', 'The ETag of this list, for `If-Match`.'),
});
const PASSWORD =
  'The account. Its password is only in this response, because Questlog stores only the SHA-256 of the password.';
const READERS_NOT_HERE = 'This ClickHouse cannot have accounts of studios: `readers_not_here`.';

export const DIRECTORY = {
  listTenants: {
    route: 'GET /admin/tenants',
    summary: 'Lists all tenants.',
    responses: { 200: answer('Lists all tenants.', Type.Array(TenantOutput)) },
  },
  createTenant: {
    route: 'POST /admin/tenants',
    summary: 'Creates a tenant.',
    body: TenantInput,
    responses: { 201: answer(CREATED, TenantOutput), 200: answer(EXISTS, TenantOutput), 409: CONFLICT },
  },
  changeTenant: {
    route: 'PATCH /admin/tenants/{id}',
    summary: 'Changes those fields of a tenant that are in the body.',
    body: TenantPatch,
    responses: { 200: answer('The changed entity.', TenantOutput), 404: NOT_THERE },
  },
  listProjects: {
    route: 'GET /admin/projects',
    summary: 'Lists all projects.',
    responses: { 200: answer('Lists all projects.', Type.Array(ProjectOutput)) },
  },
  createProject: {
    route: 'POST /admin/projects',
    summary: 'Creates a project of a tenant.',
    body: ProjectInput,
    responses: {
      201: answer(CREATED, ProjectOutput),
      200: answer(EXISTS, ProjectOutput),
      404: NOT_THERE,
      409: CONFLICT,
    },
  },
  changeProject: {
    route: 'PATCH /admin/projects/{id}',
    summary: 'Changes those fields of a project that are in the body.',
    body: ProjectPatch,
    responses: { 200: answer('The changed entity.', ProjectOutput), 404: NOT_THERE },
  },
  listSwitches: {
    route: 'GET /admin/projects/{id}/switches',
    summary: 'Lists the switches of a project that have not ended.',
    responses: { 200: SWITCHES, 404: NOT_THERE },
  },
  replaceSwitches: {
    route: 'PUT /admin/projects/{id}/switches',
    summary:
      'Replaces the switches of a project, which reject or sample events. They take effect at every ingest within 2 s.',
    parameters: [
      header(
        'If-Match',
        'The `ETag` of the list to replace. If the list has changed since, the response is a 412.',
      ),
    ],
    body: SwitchesInput,
    bodyMode: 'unchecked',
    responses: { 200: SWITCHES, 404: NOT_THERE, 412: 'The switches have changed.' },
  },
  sendTestEvent: {
    route: 'POST /admin/projects/{id}/test-event',
    summary: 'Sends an event of the type `questlog.test` for the project, in the same way as a game does.',
    responses: {
      201: answer('The created event.', ANY_OBJECT),
      403: 'A switch of the project rejects such events: `switched_off`.',
      404: NOT_THERE,
      429: 'The project or its tenant exceeds a rate limit: `rate_limited`.',
    },
  },
  retractReport: {
    route: 'DELETE /admin/projects/{id}/reports/{reportId}',
    summary:
      'Retracts a bug report and its links, whichever token filed it. Repeated requests also return 204.',
    responses: { 204: emptyAnswer('The report is retracted.'), 404: NOT_THERE },
  },
  listTokens: {
    route: 'GET /admin/tokens',
    summary: 'Lists all tokens, without their texts.',
    responses: { 200: answer('Lists all tokens, without their texts.', Type.Array(TokenOutput)) },
  },
  createToken: {
    route: 'POST /admin/tokens',
    summary: 'Creates a token. Its text is only in this response, because Questlog stores only its SHA-256.',
    body: TokenInput,
    responses: { 201: answer('The token.', TokenCreated), 404: NOT_THERE },
  },
  revokeToken: {
    route: 'DELETE /admin/tokens/{id}',
    summary: 'Revokes a token.',
    responses: { 204: emptyAnswer('The token is no longer valid.'), 404: NOT_THERE },
  },
  rotateToken: {
    route: 'POST /admin/tokens/{id}/rotate',
    summary: 'Replaces a token. The old token stays valid for `overlapSeconds`.',
    description:
      'The new token has the project and the scopes of the old token, and can retract its reports. If `expiresAt` is omitted, ' +
      'the new token has the same lifetime as the old token had when it was created.',
    body: TokenRotation,
    responses: {
      201: answer(
        'The new token. Its text is only in this response. The old token is invalid from `oldExpiresAt` on.',
        TokenRotated,
      ),
      404: NOT_THERE,
      409: 'The token was already rotated. The detail names its successor.',
    },
  },
  listReaders: {
    route: 'GET /admin/readers',
    summary: 'Lists the accounts of ClickHouse that read the rows of one tenant or project.',
    responses: { 200: answer('The accounts, without their passwords.', Type.Array(ReaderOutput)) },
  },
  createReader: {
    route: 'POST /admin/readers',
    summary: 'Creates an account of ClickHouse that reads only the rows of one tenant or project.',
    body: ReaderInput,
    responses: { 201: answer(PASSWORD, ReaderCreated), 404: NOT_THERE, 501: READERS_NOT_HERE },
  },
  dropReader: {
    route: 'DELETE /admin/readers/{id}',
    summary: 'Deletes an account of ClickHouse.',
    responses: { 204: emptyAnswer('The account is no longer valid.'), 404: NOT_THERE },
  },
  rotateReader: {
    route: 'POST /admin/readers/{id}/rotate',
    summary: 'Replaces the password of an account of ClickHouse. The old password is invalid at once.',
    responses: { 201: answer(PASSWORD, ReaderCreated), 404: NOT_THERE, 501: READERS_NOT_HERE },
  },
} as const satisfies Operations;
