/** Defines the dashboards in `deploy/monitoring/dashboards`. `npm run docs:reference` writes them. */

import { CLICKHOUSE_CLUSTER } from './clusterPanels.ts';
import { dashboard, variable } from './panels.ts';
import { CLICKHOUSE, CONSUMERS, DEPLOYMENT, INGEST, OVERVIEW, SERVICE } from './servicePanels.ts';
import { ONE_PROJECT, TENANTS } from './tenantPanels.ts';

export const FOLDER = 'deploy/monitoring/dashboards';

const CLUSTER = variable('cluster', 'Cluster', 'label_values(questlog_build_info, cluster)');
const NAMESPACE = variable(
  'namespace',
  'Namespace',
  'label_values(questlog_build_info{cluster=~"$cluster"}, namespace)',
);
const SERVICES = variable('service', 'Service', `label_values(questlog_build_info{${DEPLOYMENT}}, job)`);
const TENANT = variable(
  'tenant',
  'Tenant',
  `label_values(questlog_tenant_events_accepted_total{${SERVICE}}, tenant)`,
);
const PROJECT = variable(
  'project',
  'Project',
  'SELECT DISTINCT toString(project_id) FROM event_counts_by_minute',
  {
    ...{ isSql: true, isSingle: true },
  },
);

const SERVICE_VARIABLES = [CLUSTER, NAMESPACE, SERVICES];

export const DASHBOARDS = [
  dashboard({
    ...{ name: 'overview', title: 'Overview', variables: SERVICE_VARIABLES, panels: OVERVIEW },
    description: 'Shows whether the deployment meets its objectives.',
  }),
  dashboard({
    ...{ name: 'ingest', title: 'Ingest', variables: SERVICE_VARIABLES, panels: INGEST },
    description: 'Rate, errors, and duration of requests, and use of the resources of ingest.',
  }),
  dashboard({
    ...{ name: 'consumers', title: 'Consumers and log', variables: SERVICE_VARIABLES, panels: CONSUMERS },
    description: 'Lag of the consumer groups, the projector, the linker, and the log.',
  }),
  dashboard({
    ...{
      name: 'clickhouse',
      title: 'ClickHouse',
      variables: SERVICE_VARIABLES,
      panels: [...CLICKHOUSE, ...CLICKHOUSE_CLUSTER],
    },
    description: 'Inserts, parts, and sizes of the tables.',
  }),
  dashboard({
    ...{ name: 'tenants', title: 'Tenants', hasSql: true, panels: TENANTS },
    variables: [...SERVICE_VARIABLES, TENANT],
    description: 'Events and rejections by tenant.',
  }),
  dashboard({
    ...{ name: 'project', title: 'One project', hasSql: true, panels: ONE_PROJECT },
    variables: [PROJECT],
    description: 'Events, sessions, and bug reports of a project, from ClickHouse.',
  }),
];

/** Returns the texts of the dashboards' files by path. */
export function dashboardFiles(): Readonly<Record<string, string>> {
  return Object.fromEntries(
    DASHBOARDS.map((one) => [
      `${FOLDER}/${String(one.uid).replace(/^questlog-/, '')}.json`,
      `${JSON.stringify(one, null, 2)}\n`,
    ]),
  );
}
