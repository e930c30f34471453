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
  { method: 'GET', path: '/admin/tenants', answer: `200 array of ${TENANT}`, meaning: 'all tenants.' },
  {
    method: 'POST',
    path: '/admin/tenants',
    body: 'TenantInput',
    answer: `201 ${TENANT}`,
    meaning: 'creates a tenant.',
  },
  {
    method: 'PATCH',
    path: '/admin/tenants/{id}',
    body: 'TenantPatch',
    answer: `200 ${TENANT}`,
    meaning: 'changes the given fields.',
  },
  { method: 'GET', path: '/admin/projects', answer: `200 array of ${PROJECT}`, meaning: 'all projects.' },
  {
    method: 'POST',
    path: '/admin/projects',
    body: 'ProjectInput',
    answer: `201 ${PROJECT}`,
    meaning: 'creates a project of a tenant.',
  },
  {
    method: 'PATCH',
    path: '/admin/projects/{id}',
    body: 'ProjectPatch',
    answer: `200 ${PROJECT}`,
    meaning: 'changes the given fields.',
  },
  {
    method: 'GET',
    path: '/admin/tokens',
    answer: '200 array of [Token](#token)',
    meaning: 'all tokens, without their secrets.',
  },
  {
    method: 'POST',
    path: '/admin/tokens',
    body: 'TokenInput',
    answer: '201 [TokenCreated](#tokencreated)',
    meaning: 'creates a token, shown once and kept as SHA-256.',
  },
  { method: 'DELETE', path: '/admin/tokens/{id}', answer: '204', meaning: 'revokes a token.' },
  {
    method: 'POST',
    path: '/admin/links/retry',
    body: 'LinkRetryInput',
    answer: '200 [LinkRetry](#linkretry)',
    meaning: 'looks up reports with unresolved links again, all or filtered.',
  },
  {
    method: 'POST',
    path: '/admin/sql',
    body: 'SqlInput',
    answer: "200 ClickHouse's own `JSON` format, or the one that its FORMAT clause names",
    meaning: 'one SELECT over the tables of `questlog`, by an account that only reads.',
  },
  {
    method: 'GET',
    path: '/admin/tail',
    answer: '200 server-sent events',
    meaning:
      'the events of now, at most 100 a second (`event: events`), and how many there were (`event: count`). Filters: ' +
      '`project`, `type`, `session`, `player`, `where` (`level=3`). `unreadRecords` were not looked into, to leave ingest its time.',
  },
  {
    method: 'GET',
    path: '/healthz',
    answer: '200',
    meaning: 'the process runs. For load balancers.',
  },
  {
    method: 'GET',
    path: '/readyz',
    answer: '200, with `warnings`; 503 with `problems`',
    meaning:
      'its consumers progress. An ingest without the log or ClickHouse only warns. For rollouts and alerts.',
  },
  {
    method: 'GET',
    path: '/metrics',
    answer: '200 Prometheus text',
    meaning: 'see [metrics](metrics.md).',
  },
];
