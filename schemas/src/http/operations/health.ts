/** Operations that every process has, for supervisors and Prometheus. */
import { Readiness } from '../health.ts';
import type { Operations } from './operation.ts';
import { answer, HEALTHY, TEXT } from './parts.ts';

export const HEALTH = {
  getHealth: {
    route: 'GET /healthz',
    access: 'anyone',
    summary: 'Checks that the process runs. For load balancers.',
    responses: { 200: answer('The service answers.', HEALTHY) },
  },
  getReadiness: {
    route: 'GET /readyz',
    access: 'anyone',
    summary:
      'Checks that the consumers of the process make progress. If ingest cannot reach the log or ClickHouse, the response only has a warning. For rollouts and alerts.',
    responses: {
      200: answer('The process is ready. `warnings` has problems of other parts.', Readiness),
      503: answer('The process is not ready.', Readiness),
    },
  },
  getMetrics: {
    route: 'GET /metrics',
    access: 'anyone',
    summary:
      'Returns metrics in the text format of Prometheus, or in OpenMetrics 1.0 if the header `Accept` names it.',
    responses: { 200: answer('The metrics.', TEXT, { type: 'text/plain' }) },
  },
} as const satisfies Operations;
