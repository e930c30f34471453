/** Panels of the dashboards about tenants and projects. Most of their queries are SQL. */
import { type PanelOptions, stat, timeseries } from './panels.ts';
import { ABOVE_ZERO, ANY_RATE, rate, SERVICE } from './servicePanels.ts';

const TENANT_SERIES = `${SERVICE}, tenant=~"$tenant"`;
const ofTenants = (metric: string): string => rate('tenant', metric, TENANT_SERIES);

export const TENANTS = [
  timeseries({
    title: 'Accepted events by tenant',
    unit: 'cps',
    noThresholds: ANY_RATE,
    description: 'The 50 tenants with the most events per process, and all other tenants.',
    queries: { '{{tenant}}': ofTenants('questlog_tenant_events_accepted_total') },
  }),
  timeseries({
    title: 'Rate-limited events and requests by tenant',
    unit: 'cps',
    orange: ABOVE_ZERO,
    queries: { '{{tenant}}': ofTenants('questlog_tenant_rate_limited_total') },
  }),
  timeseries({
    title: 'Share of the largest tenant',
    unit: 'percentunit',
    orange: 0.5,
    red: 0.9,
    queries: {
      share: `max(${rate('tenant', 'questlog_tenant_events_accepted_total', SERVICE)}) / (sum(rate(questlog_tenant_events_accepted_total{${SERVICE}}[$__rate_interval])) > 0)`,
    },
  }),
  timeseries({
    title: 'Accepted events per minute by tenant',
    unit: 'short',
    noThresholds: ANY_RATE,
    isSql: true,
    queries: {
      tenants: `SELECT minute AS time, toString(tenant_id) AS tenant, toFloat64(sum(accepted_events)) AS events FROM ledger
WHERE $__timeFilter(minute) AND tenant_id IN (
  SELECT tenant_id FROM ledger WHERE $__timeFilter(minute) GROUP BY tenant_id ORDER BY sum(accepted_events) DESC LIMIT 20
) GROUP BY time, tenant ORDER BY time`,
    },
  }),
  timeseries({
    title: 'Responses by outcome',
    unit: 'short',
    noThresholds: ANY_RATE,
    isSql: true,
    queries: {
      outcomes: `SELECT minute AS time, outcome, toFloat64(sum(answered)) AS requests
FROM ledger ARRAY JOIN mapKeys(outcomes) AS outcome, mapValues(outcomes) AS answered
WHERE $__timeFilter(minute) GROUP BY time, outcome ORDER BY time`,
    },
  }),
  timeseries({
    title: 'Rejected elements and fields by code',
    unit: 'short',
    noThresholds: 'The rate depends on the correctness of the games.',
    isSql: true,
    queries: {
      codes: `SELECT minute AS time, code, toFloat64(sum(count)) AS rejected
FROM rejects WHERE $__timeFilter(minute) GROUP BY time, code ORDER BY time`,
    },
  }),
];

const ANY_NUMBER = 'The normal number depends on the game.';
const OF_PROJECT = "project_id = toUUID('$project')";
const ofProject = (
  title: string,
  sql: string,
  levels: { orange: number } | { noThresholds: string } = { noThresholds: ANY_NUMBER },
): PanelOptions => ({ ...{ title, unit: 'short', isSql: true, queries: { [title]: sql } }, ...levels });

export const ONE_PROJECT = [
  stat(
    ofProject(
      'Events',
      `SELECT sum(count) FROM event_counts_by_minute WHERE ${OF_PROJECT} AND $__timeFilter(minute)`,
    ),
  ),
  stat(
    ofProject(
      'Sessions',
      `SELECT count() FROM sessions FINAL WHERE ${OF_PROJECT} AND $__timeFilter(registered_at)`,
    ),
  ),
  stat(
    ofProject(
      'Players',
      `SELECT uniq(player_external_id) FROM sessions WHERE ${OF_PROJECT} AND $__timeFilter(registered_at)`,
    ),
  ),
  stat(
    ofProject(
      'Bug reports',
      `SELECT count() FROM reports WHERE ${OF_PROJECT} AND $__timeFilter(received_at)`,
    ),
  ),
  stat(
    ofProject(
      'Critical reports',
      `SELECT count() FROM reports WHERE ${OF_PROJECT} AND severity = 'critical' AND $__timeFilter(received_at)`,
      { orange: 1 },
    ),
  ),
  stat(
    ofProject(
      'Rejected elements and fields',
      `SELECT sum(count) FROM rejects WHERE ${OF_PROJECT} AND $__timeFilter(minute)`,
      { orange: 1 },
    ),
  ),
  timeseries(
    ofProject(
      'Events per minute by type',
      `SELECT minute AS time, event_type, toFloat64(sum(count)) AS events FROM event_counts_by_minute
WHERE ${OF_PROJECT} AND $__timeFilter(minute) AND event_type IN (
  SELECT event_type FROM event_counts_by_minute WHERE ${OF_PROJECT} AND $__timeFilter(minute)
  GROUP BY event_type ORDER BY sum(count) DESC LIMIT 15
) GROUP BY time, event_type ORDER BY time`,
    ),
  ),
  timeseries(
    ofProject(
      'New sessions by version',
      `SELECT $__timeInterval(registered_at) AS time, ifNull(version, 'unknown') AS build_version, toFloat64(count()) AS sessions
FROM sessions FINAL WHERE ${OF_PROJECT} AND $__timeFilter(registered_at) GROUP BY time, build_version ORDER BY time`,
    ),
  ),
  timeseries(
    ofProject(
      'Bug reports by severity',
      `SELECT $__timeInterval(received_at) AS time, severity, toFloat64(count()) AS reports
FROM reports WHERE ${OF_PROJECT} AND $__timeFilter(received_at) GROUP BY time, severity ORDER BY time`,
    ),
  ),
];
