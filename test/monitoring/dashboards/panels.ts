/** Builds panels and variables of Grafana dashboards. */
import type { Builder, Dataquery } from '@grafana/grafana-foundation-sdk/cog';
import {
  GraphThresholdsStyleConfigBuilder,
  GraphThresholdsStyleMode,
  LegendDisplayMode,
  LegendPlacement,
  ReduceDataOptionsBuilder,
  VizLegendOptionsBuilder,
} from '@grafana/grafana-foundation-sdk/common';
import {
  DashboardBuilder,
  DashboardLinkBuilder,
  DashboardLinkType,
  type DataSourceRef,
  DatasourceVariableBuilder,
  type Panel,
  QueryVariableBuilder,
  type Threshold,
  ThresholdsConfigBuilder,
  ThresholdsMode,
  VariableRefresh,
} from '@grafana/grafana-foundation-sdk/dashboard';
import { DataqueryBuilder } from '@grafana/grafana-foundation-sdk/prometheus';
import { PanelBuilder as StatBuilder } from '@grafana/grafana-foundation-sdk/stat';
import { PanelBuilder as TimeseriesBuilder } from '@grafana/grafana-foundation-sdk/timeseries';

const PROMETHEUS: DataSourceRef = { type: 'prometheus', uid: '$prometheus' };
const CLICKHOUSE: DataSourceRef = { type: 'grafana-clickhouse-datasource', uid: '$clickhouse' };

/** Values at which a panel turns orange and red. If `red` is lower than `orange`, low values are bad. */
interface Levels {
  readonly orange: number;
  /** Undefined if no value is bad enough for red. */
  readonly red?: number;
}

/** The description of a panel shows the reason, so that a missing threshold is a decision. */
interface WithoutLevels {
  /** Reason why no value of the panel is good or bad, as a sentence. */
  readonly noThresholds: string;
}

/** Start of the sentence with the reason in the description of a panel without thresholds. */
export const NO_THRESHOLDS = 'No thresholds:';

/** PromQL expressions, or SQL, by legend. */
type Queries = Readonly<Record<string, string>>;

interface Content {
  readonly title: string;
  /** Unit in Grafana's notation, for example `s`, `bytes`, `reqps`, `percentunit`, or `short`. */
  readonly unit: string;
  readonly queries: Queries;
  readonly description?: string;
  /** True if the queries are SQL for ClickHouse. */
  readonly isSql?: boolean;
}

export type PanelOptions = Content & (Levels | WithoutLevels);

/** Builds a panel with the course of values over time. A dashboard has three of these panels in a row. */
export function timeseries(options: PanelOptions): Builder<Panel> {
  const panel = new TimeseriesBuilder()
    .thresholdsStyle(
      new GraphThresholdsStyleConfigBuilder().mode(
        'orange' in options ? GraphThresholdsStyleMode.Dashed : GraphThresholdsStyleMode.Off,
      ),
    )
    .legend(
      new VizLegendOptionsBuilder()
        .displayMode(LegendDisplayMode.List)
        .placement(LegendPlacement.Bottom)
        .showLegend(true),
    )
    .fillOpacity(10)
    .min(0)
    .span(8)
    .height(8);
  return withQueries(panel, options, false);
}

/** Builds a panel with the latest value. A dashboard has six of these panels in a row. */
export function stat(options: PanelOptions): Builder<Panel> {
  const panel = new StatBuilder()
    .reduceOptions(new ReduceDataOptionsBuilder().calcs(['lastNotNull']))
    .span(4)
    .height(4);
  return withQueries(panel, options, true);
}

function withQueries(
  panel: TimeseriesBuilder | StatBuilder,
  { title, unit, queries, description, isSql = false, ...levels }: PanelOptions,
  isInstant: boolean,
): Builder<Panel> {
  panel
    .title(title)
    .unit(unit)
    .datasource(isSql ? CLICKHOUSE : PROMETHEUS)
    .thresholds(thresholdsOf(levels));
  const reason = 'noThresholds' in levels ? `${NO_THRESHOLDS} ${levels.noThresholds}` : undefined;
  const sentences = [description, reason].filter((sentence) => sentence !== undefined);
  if (sentences.length > 0) panel.description(sentences.join(' '));
  for (const [index, [legend, text]] of Object.entries(queries).entries()) {
    const refId = String.fromCharCode('A'.charCodeAt(0) + index);
    panel.withTarget(isSql ? sqlTarget(refId, text, isInstant) : promTarget(refId, text, legend, isInstant));
  }
  return panel;
}

function promTarget(refId: string, expr: string, legend: string, isInstant: boolean): Builder<Dataquery> {
  const target = new DataqueryBuilder().refId(refId).expr(expr).legendFormat(legend).datasource(PROMETHEUS);
  return isInstant ? target.instant() : target.range();
}

/** Builds a query in the format of the plugin grafana-clickhouse-datasource, version 4. */
function sqlTarget(refId: string, rawSql: string, isInstant: boolean): Builder<Dataquery> {
  const [format, queryType] = isInstant ? [1, 'table'] : [0, 'timeseries'];
  const target = { refId, datasource: CLICKHOUSE, editorType: 'sql', rawSql, format, queryType };
  return { build: () => ({ ...target, _implementsDataqueryVariant: () => undefined }) };
}

function thresholdsOf(levels: Levels | WithoutLevels): ThresholdsConfigBuilder {
  return new ThresholdsConfigBuilder().mode(ThresholdsMode.Absolute).steps(stepsOf(levels));
}

function stepsOf(levels: Levels | WithoutLevels): Threshold[] {
  if ('noThresholds' in levels) return [{ color: 'text', value: null }];
  const { orange, red = Number.POSITIVE_INFINITY } = levels;
  const colors = orange <= red ? { green: null, orange, red } : { red: null, orange: red, green: orange };
  return Object.entries(colors)
    .filter(([, value]) => value !== Number.POSITIVE_INFINITY)
    .map(([color, value]) => ({ color, value }));
}

/** Builds a variable whose values Prometheus or ClickHouse provides. */
export function variable(
  name: string,
  label: string,
  query: string,
  { isSql = false, isSingle = false }: { readonly isSql?: boolean; readonly isSingle?: boolean } = {},
): QueryVariableBuilder {
  const built = new QueryVariableBuilder(name)
    .label(label)
    .datasource(isSql ? CLICKHOUSE : PROMETHEUS)
    .query(isSql ? query : { query, refId: name })
    .refresh(VariableRefresh.OnTimeRangeChanged);
  // With the regular expression `.*`, series without the label are also selected.
  return isSingle ? built : built.includeAll(true).multi(true).allValue('.*').current(ALL);
}

const ALL = { text: ['All'], value: ['$__all'] };

interface DashboardOptions {
  /** Name of the file, and last part of the dashboard's uid. */
  readonly name: string;
  readonly title: string;
  readonly description: string;
  readonly variables: readonly QueryVariableBuilder[];
  readonly panels: readonly Builder<Panel>[];
  /** True if panels query ClickHouse. */
  readonly hasSql?: boolean;
}

export function dashboard({ name, title, description, variables, panels, hasSql = false }: DashboardOptions) {
  const built = new DashboardBuilder(`Questlog: ${title}`)
    .uid(`questlog-${name}`)
    .description(description)
    .tags(['questlog'])
    .timezone('utc')
    .refresh('30s')
    .time({ from: 'now-6h', to: 'now' })
    .link(
      new DashboardLinkBuilder('Questlog')
        .type(DashboardLinkType.Dashboards)
        .tags(['questlog'])
        .asDropdown(true)
        .keepTime(true),
    )
    .withVariable(new DatasourceVariableBuilder('prometheus').label('Prometheus').type('prometheus'));
  if (hasSql)
    built.withVariable(
      new DatasourceVariableBuilder('clickhouse').label('ClickHouse').type('grafana-clickhouse-datasource'),
    );
  for (const one of variables) built.withVariable(one);
  for (const [index, panel] of panels.entries()) {
    const { build } = panel;
    built.withPanel({ build: () => ({ ...build.call(panel), id: index + 1 }) });
  }
  return built.build();
}
