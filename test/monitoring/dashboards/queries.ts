/** Lists the panels, variables, and queries of all dashboards, and runs their PromQL. */
import type { Prometheus } from '../prometheus.ts';
import { DASHBOARDS } from './dashboards.ts';

interface Query {
  /** Titles of the dashboard and of the panel. */
  readonly panel: string;
  readonly expr?: string;
  readonly rawSql?: string;
}

/** Panels of all dashboards. The name of a panel contains the titles of the dashboard and of the panel. */
export const PANELS = DASHBOARDS.flatMap(({ title, panels = [] }) =>
  panels.flatMap((panel) => ('targets' in panel ? [{ ...panel, name: `${title}: ${panel.title}` }] : [])),
);
export const QUERIES = PANELS.flatMap(({ name, targets = [] }) =>
  targets.map((target): Query => ({ ...target, panel: name })),
);

/** Queries of the variables of each dashboard, by the dashboard's title and the variable's name. */
export const VARIABLES: Readonly<Record<string, Readonly<Record<string, string>>>> = Object.fromEntries(
  DASHBOARDS.map(({ title, templating }) => [
    String(title),
    Object.fromEntries(
      (templating?.list ?? []).flatMap(({ type, name, query = '' }) =>
        type === 'query' ? [[name, typeof query === 'string' ? query : String(query['query'])]] : [],
      ),
    ),
  ]),
);

/** Matches queries of metrics that only a ClickHouse cluster has. */
const OF_CLUSTER = /questlog_clickhouse_(replica|shard)_/;

/** Returns the PromQL queries without values, each after the name of its panel. */
export async function unansweredQueries(
  { query }: Prometheus,
  { ofCluster }: { readonly ofCluster: boolean },
): Promise<string[]> {
  const found = await Promise.all(
    QUERIES.filter(({ expr = '' }) => OF_CLUSTER.test(expr) === ofCluster).map(async ({ panel, expr }) => {
      if (expr === undefined || (await query(asInstantQuery(expr))).length > 0) return [];
      return [`${panel}: ${expr}`];
    }),
  );
  return found.flat();
}

/** Returns the values of `label_values(<series>, <label>)`, a function of Grafana. */
export async function labelValues({ query }: Prometheus, call: string): Promise<(string | undefined)[]> {
  const { series = '', label = '' } =
    /^label_values\((?<series>.+), (?<label>\w+)\)$/.exec(call)?.groups ?? {};
  const found = await query(`group by (${label}) (${asInstantQuery(series)})`);
  return found.map(({ metric }) => metric[label]);
}

/** Replaces the variables as Grafana does if all values are selected. */
function asInstantQuery(expr: string): string {
  return expr.replaceAll('$__rate_interval', '10s').replace(/\$(cluster|namespace|service|tenant)\b/g, '.*');
}
