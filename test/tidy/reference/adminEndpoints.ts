/** The endpoints of the admin listener, by hand: `openapi.json` is for games and does not have them. */
import {
  ProjectInput,
  ProjectOutput,
  ProjectPatch,
  SqlInput,
  TenantInput,
  TenantOutput,
  TenantPatch,
  TokenCreated,
  TokenInput,
  TokenOutput,
} from '@questlog/schemas/http/admin';
import { LinkRetryInput, LinkRetryOutput } from '@questlog/schemas/http/report';

export interface AdminEndpoint {
  readonly method: 'GET' | 'POST' | 'PATCH' | 'DELETE';
  readonly path: string;
  readonly body?: keyof typeof ADMIN_SHAPES;
  readonly answer: string;
  readonly meaning: string;
}

export const ADMIN_SHAPES = {
  TenantInput,
  TenantPatch,
  Tenant: TenantOutput,
  ProjectInput,
  ProjectPatch,
  Project: ProjectOutput,
  TokenInput,
  TokenCreated,
  Token: TokenOutput,
  LinkRetryInput,
  LinkRetry: LinkRetryOutput,
  SqlInput,
};

const TENANT = '[Tenant](#tenant)';
const PROJECT = '[Project](#project)';

export const ADMIN_ENDPOINTS: readonly AdminEndpoint[] = [
  { method: 'GET', path: '/admin/tenants', answer: `200 array of ${TENANT}`, meaning: 'All tenants.' },
  {
    method: 'POST',
    path: '/admin/tenants',
    body: 'TenantInput',
    answer: `201 ${TENANT}; 200 where it is there already`,
    meaning: 'Makes a tenant; other content under a known id is a 409.',
  },
  {
    method: 'PATCH',
    path: '/admin/tenants/{id}',
    body: 'TenantPatch',
    answer: `200 ${TENANT}`,
    meaning: 'Changes what is given.',
  },
  { method: 'GET', path: '/admin/projects', answer: `200 array of ${PROJECT}`, meaning: 'All projects.' },
  {
    method: 'POST',
    path: '/admin/projects',
    body: 'ProjectInput',
    answer: `201 ${PROJECT}; 200 where it is there already`,
    meaning: 'Makes a project of a tenant; other content under a known id is a 409.',
  },
  {
    method: 'PATCH',
    path: '/admin/projects/{id}',
    body: 'ProjectPatch',
    answer: `200 ${PROJECT}`,
    meaning: 'Changes what is given.',
  },
  {
    method: 'GET',
    path: '/admin/tokens',
    answer: '200 array of [Token](#token)',
    meaning: 'All tokens, without their secrets.',
  },
  {
    method: 'POST',
    path: '/admin/tokens',
    body: 'TokenInput',
    answer: '201 [TokenCreated](#tokencreated)',
    meaning: 'Makes a token; it is shown this once and kept only as its SHA-256.',
  },
  { method: 'DELETE', path: '/admin/tokens/{id}', answer: '204', meaning: 'Revokes a token.' },
  {
    method: 'POST',
    path: '/admin/links/retry',
    body: 'LinkRetryInput',
    answer: '200 [LinkRetry](#linkretry)',
    meaning: 'Has reports whose events did not come in time looked up again; a filter narrows it.',
  },
  {
    method: 'POST',
    path: '/admin/sql',
    body: 'SqlInput',
    answer: "200 ClickHouse's own `JSON` format: `meta`, `data`, `rows`, `statistics`",
    meaning: 'One SELECT over the tables of `questlog`; nothing that writes or reaches outside.',
  },
  {
    method: 'GET',
    path: '/healthz',
    answer: '200',
    meaning: 'The process runs. What a load balancer probes.',
  },
  {
    method: 'GET',
    path: '/readyz',
    answer: '200, with what is away in `warnings`; 503 with what is wrong by name in `problems`',
    meaning:
      'The consumers of the process move. That the log or ClickHouse is away is a warning of ingest, which goes on with what it can. For rollouts and alerts.',
  },
  {
    method: 'GET',
    path: '/metrics',
    answer: '200 text of Prometheus',
    meaning: 'See [metrics](metrics.md).',
  },
];
