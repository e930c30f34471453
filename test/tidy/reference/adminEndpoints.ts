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
    answer: `201 ${TENANT}; 200 if it exists`,
    meaning: 'Creates a tenant. A known id with other content is a 409.',
  },
  {
    method: 'PATCH',
    path: '/admin/tenants/{id}',
    body: 'TenantPatch',
    answer: `200 ${TENANT}`,
    meaning: 'Changes the given fields.',
  },
  { method: 'GET', path: '/admin/projects', answer: `200 array of ${PROJECT}`, meaning: 'All projects.' },
  {
    method: 'POST',
    path: '/admin/projects',
    body: 'ProjectInput',
    answer: `201 ${PROJECT}; 200 if it exists`,
    meaning: 'Creates a project of a tenant. A known id with other content is a 409.',
  },
  {
    method: 'PATCH',
    path: '/admin/projects/{id}',
    body: 'ProjectPatch',
    answer: `200 ${PROJECT}`,
    meaning: 'Changes the given fields.',
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
    meaning: 'Creates a token. It is shown once and kept as SHA-256.',
  },
  { method: 'DELETE', path: '/admin/tokens/{id}', answer: '204', meaning: 'Revokes a token.' },
  {
    method: 'POST',
    path: '/admin/links/retry',
    body: 'LinkRetryInput',
    answer: '200 [LinkRetry](#linkretry)',
    meaning: 'Looks up reports with unresolved links again, all or filtered.',
  },
  {
    method: 'POST',
    path: '/admin/sql',
    body: 'SqlInput',
    answer:
      "200 ClickHouse's own `JSON` format (`meta`, `data`, `rows`, `statistics`), or the one that its FORMAT clause names",
    meaning: 'One SELECT over the tables of `questlog`, by an account that only reads.',
  },
  {
    method: 'GET',
    path: '/healthz',
    answer: '200',
    meaning: 'The process runs. For load balancers.',
  },
  {
    method: 'GET',
    path: '/readyz',
    answer: '200, with `warnings`; 503 with `problems`',
    meaning:
      'The consumers of the process progress. An ingest without the log or ClickHouse warns and goes on. For rollouts and alerts.',
  },
  {
    method: 'GET',
    path: '/metrics',
    answer: '200 Prometheus text',
    meaning: 'See [metrics](metrics.md).',
  },
];
