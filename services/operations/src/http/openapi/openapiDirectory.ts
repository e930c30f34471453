/** OpenAPI operations of tenants, projects, tokens, and switches. */

import { answer, header, id, problem, ref } from '@questlog/runtime/http/openapi/openapiParts';
import { SwitchesInput } from '@questlog/schemas/http/admin';
import { ADMIN_RESPONSES, NOT_THERE, written } from './openapiAdminParts.ts';

export function directoryPaths(): Record<string, object> {
  return {
    '/admin/tenants': {
      get: listed('listTenants', 'Lists all tenants.', 'Tenant'),
      post: created('createTenant', 'Creates a tenant.', 'TenantInput', 'Tenant'),
    },
    '/admin/tenants/{id}': {
      patch: changed('changeTenant', 'Changes the fields of a tenant that the body has.', 'Tenant'),
    },
    '/admin/projects': {
      get: listed('listProjects', 'Lists all projects.', 'Project'),
      post: created('createProject', 'Creates a project of a tenant.', 'ProjectInput', 'Project', {
        404: NOT_THERE,
      }),
    },
    '/admin/projects/{id}': {
      patch: changed('changeProject', 'Changes the fields of a project that the body has.', 'Project'),
    },
    '/admin/projects/{id}/switches': switchOperations(),
    '/admin/projects/{id}/test-event': { post: testEventOperation() },
    '/admin/projects/{id}/reports/{reportId}': { delete: retractOperation() },
    '/admin/tokens': {
      get: listed('listTokens', 'Lists all tokens, without their texts.', 'Token'),
      post: written(
        'createToken',
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
  };
}

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
      operationId: 'listSwitches',
      summary: 'Lists the switches of a project that have not ended.',
      parameters: [id],
      responses: { 200: switches, 404: NOT_THERE, ...ADMIN_RESPONSES },
    },
    put: {
      ...written('replaceSwitches', put, 'SwitchInput', {
        200: switches,
        404: NOT_THERE,
        412: problem('The switches have changed.'),
      }),
      parameters: [id, header('If-Match', ifMatch)],
      requestBody: {
        required: true,
        content: { 'application/json': { schema: { ...SwitchesInput, items: ref('SwitchInput') } } },
      },
    },
  };
}

function testEventOperation(): object {
  return {
    operationId: 'sendTestEvent',
    summary: 'Sends an event of the type `questlog.test` for the project, in the same way as a game does.',
    parameters: [id],
    responses: {
      201: answer('The created event.', { type: 'object' }),
      403: problem('A switch of the project rejects such events: `switched_off`.'),
      404: NOT_THERE,
      ...ADMIN_RESPONSES,
      429: problem('The project or its tenant exceeds a rate limit: `rate_limited`.'),
    },
  };
}

function retractOperation(): object {
  return {
    operationId: 'retractReport',
    summary:
      'Retracts a bug report and its links, whichever token filed it. Repeated requests also return 204.',
    parameters: [id, { ...id, name: 'reportId' }],
    responses: { 204: { description: 'The report is retracted.' }, 404: NOT_THERE, ...ADMIN_RESPONSES },
  };
}

function revokeOperation(): object {
  return {
    operationId: 'revokeToken',
    summary: 'Revokes a token.',
    parameters: [id],
    responses: { 204: { description: 'The token is no longer valid.' }, 404: NOT_THERE, ...ADMIN_RESPONSES },
  };
}

function rotateOperation(): object {
  const operation = written(
    'rotateToken',
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

function listed(operationId: string, summary: string, name: string): object {
  return {
    operationId,
    summary,
    responses: { 200: answer(summary, { type: 'array', items: ref(name) }), ...ADMIN_RESPONSES },
  };
}

function created(
  operationId: string,
  summary: string,
  input: string,
  name: string,
  refusals: object = {},
): object {
  return written(operationId, summary, input, {
    201: answer('The created entity.', name),
    200: answer('The entity exists with the same content.', name),
    409: problem('The id is used by an entity with other content.'),
    ...refusals,
  });
}

function changed(operationId: string, summary: string, name: string): object {
  const responses = { 200: answer('The changed entity.', name), 404: NOT_THERE };
  return { ...written(operationId, summary, `${name}Patch`, responses), parameters: [id] };
}
