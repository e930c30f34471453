/** Tests the metrics and the rules with promtool: each alert fires above its threshold, and does not fire below it. */
import { execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { parse } from 'yaml';
import { findProgram } from '../games/gamePages.ts';
import { allMetrics } from '../tidy/reference/metricsPage.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const RULES = join(ROOT, 'deploy/monitoring/rules.yaml');
const PAGES = 'https://github.com/questlog/questlog/blob/main/';

interface Rule {
  readonly record?: string;
  readonly alert?: string;
  readonly expr: string;
  readonly labels?: { readonly severity?: string };
  readonly annotations?: Readonly<Record<'summary' | 'description' | 'runbook_url', string>>;
}

const rules = (parse(readFileSync(RULES, 'utf8')) as { groups: { rules: Rule[] }[] }).groups.flatMap(
  (group) => group.rules,
);
const alerts = rules.filter((rule) => rule.alert !== undefined);

/** Samples of time series, one sample a minute, in promtool's notation. */
type Series = Readonly<Record<string, string>>;

const EVENTS = 'questlog_http_requests_total{route="/v1/ingest/events",status="201"}';
const FAILED = 'questlog_http_requests_total{route="/v1/ingest/events",status="503"}';
const GROUP = '{group="questlog-project-events",topic="questlog.events.v1"}';
const LAG = `questlog_group_lag_seconds${GROUP}`;
const LAG_AT = `questlog_group_lag_timestamp_seconds${GROUP}`;
const LINK = '{group="questlog-link",topic="questlog.events.v1"}';
const LINK_LAG = `questlog_group_lag_seconds${LINK}`;
const LINK_LAG_AT = `questlog_group_lag_timestamp_seconds${LINK}`;
const RETENTION = `questlog_group_lag_retention_ratio${GROUP}`;
const DEAD_LETTERS = 'questlog_dead_letters_open{group="questlog-project-events"}';
const LEDGER = 'questlog_ledger_difference_age_seconds';
const CUTS = 'questlog_log_truncations_total{topic="questlog.events.v1"}';
const OUTAGE =
  'questlog_log_partition_outage_seconds{topic="questlog.events.v1",partition="3",doing="append"}';
const LOOKUPS = 'questlog_linker_look_up_failures_total{kind="final"}';
const LOOKUP_WAIT = 'questlog_linker_look_up_wait_seconds{partition="3"}';
const OPEN_REPORTS = 'questlog_linker_open_reports{partition="3"}';
const RATE_LIMITED = 'questlog_rate_limited_total{limit="project events"}';
const BUILD = 'questlog_build_info{version="0.1.0"}';
const PARTS = 'questlog_clickhouse_partition_parts{table="events"}';
const REPLICA = '{node="http://ch1",shard="1"}';
const REACHABLE = `questlog_clickhouse_replica_reachable${REPLICA}`;
const READ_ONLY = `questlog_clickhouse_replica_read_only_tables${REPLICA}`;
const REPLICA_LAG = `questlog_clickhouse_replica_lag_seconds${REPLICA}`;
const CLOCK = `questlog_clickhouse_replica_clock_difference_seconds${REPLICA}`;
const SHARD = 'questlog_clickhouse_shard_usable{shard="1",operation="write"}';
const QUORUM = 'questlog_clickhouse_shard_quorum_lowered{shard="1"}';
const APPENDS = 'questlog_log_append_duration_seconds';
const INSERTS = 'questlog_clickhouse_insert_duration_seconds';

/** Returns the use and the limit of a resource. */
function resource(name: string, used: number, limit: number): Series {
  const of = `{resource="${name}"}`;
  return { [`questlog_resource_used${of}`]: `${used}x20`, [`questlog_resource_limit${of}`]: `${limit}x20` };
}

/** Returns a histogram of 100 calls a minute. @param slow calls a minute that take longer than `le` seconds. */
function calls(histogram: string, le: number, slow: number, labels = ''): Series {
  const bucket = (le: number | string): string => `${histogram}_bucket{${labels}le="${le}"}`;
  return {
    [bucket(le)]: `0+${100 - slow}x30`,
    [bucket(2 * le)]: '0+100x30',
    [bucket('+Inf')]: '0+100x30',
  };
}

const INGEST = 'questlog_service_info{name="ingest"}';

const HEALTHY: Series = {
  [BUILD]: '1x6000',
  [INGEST]: '1x6000',
  'questlog_service_info{name="operations"}': '1x6000',
  [PARTS]: '10x6000',
  [REACHABLE]: '1x6000',
  [READ_ONLY]: '0x6000',
  [REPLICA_LAG]: '1x6000',
  [CLOCK]: '0x6000',
  [SHARD]: '1x6000',
  [EVENTS]: '0+1000x6000',
  [LAG]: '1x6000',
  [LAG_AT]: '0+60x6000',
  [LINK_LAG]: '1x6000',
  [LINK_LAG_AT]: '0+60x6000',
  [RETENTION]: '0.001x6000',
  [DEAD_LETTERS]: '0x6000',
  [LEDGER]: '0x6000',
  [LOOKUPS]: '0x6000',
  [OPEN_REPORTS]: '10x6000',
  [RATE_LIMITED]: '0x6000',
};

interface Case {
  /** Time of the check after the first sample. */
  readonly at: string;
  readonly fires: Series;
  /** Samples for which the alert does not fire, usually just below its threshold. */
  readonly quiet: Series;
  /** Other alerts that fire in both cases. */
  readonly others?: readonly string[];
}

const CASES: Readonly<Record<string, Case>> = {
  QuestlogEventsFail: {
    at: '70m',
    fires: { [FAILED]: '0+20x6000' },
    quiet: { [FAILED]: '0+5x6000' },
    others: ['QuestlogSomeEventsFail'],
  },
  QuestlogSomeEventsFail: {
    at: '25h',
    fires: { [FAILED]: '0+4x6000' },
    quiet: { [FAILED]: '0+0.5x6000' },
  },
  QuestlogProjectionLate: {
    at: '70m',
    fires: { [LAG]: '1x40 21x60' },
    quiet: { [LAG]: '1x30 21x1 1x60' },
    others: ['QuestlogProjectionSometimesLate'],
  },
  QuestlogProjectionSometimesLate: {
    at: '25h',
    fires: { [LAG]: '21x0 1x123 '.repeat(20) },
    quiet: { [LAG]: '21x0 1x998 '.repeat(2) },
  },
  QuestlogAbsent: {
    at: '10m',
    fires: { 'questlog_build_info{namespace="other"}': '1x1 stale' },
    quiet: { [BUILD]: '_x7 1x20' },
  },
  QuestlogServiceAbsent: {
    at: '10m',
    fires: { [INGEST]: '1x1 stale' },
    quiet: { [INGEST]: '1x1 stale _x5 1x20' },
  },
  QuestlogMeasurementMissing: {
    at: '20m',
    fires: { [LEDGER]: '0x2 stale' },
    quiet: { [LEDGER]: '0x2 stale _x8 0x20' },
  },
  QuestlogBugs: {
    at: '10m',
    fires: { 'questlog_http_requests_total{route="/v1/reports",status="500"}': '_x5 1x20' },
    quiet: { 'questlog_http_requests_total{route="/v1/reports",status="503"}': '_x5 1x20' },
  },
  QuestlogGroupBehind: {
    at: '10m',
    fires: { [LINK_LAG]: '61x20' },
    quiet: { [LINK_LAG]: '60x20' },
  },
  QuestlogRecordsExpire: { at: '10m', fires: { [RETENTION]: '0.11x20' }, quiet: { [RETENTION]: '0.1x20' } },
  QuestlogLagUnknown: {
    at: '10m',
    fires: { [LAG]: '1x3 stale', [LAG_AT]: '0+60x3 stale', [LINK_LAG_AT]: '0+60x3 stale' },
    quiet: { [LAG]: '1x3 stale', [LAG_AT]: '0+60x3 stale' },
    others: ['QuestlogProjectionLate'],
  },
  QuestlogDeadLetters: {
    at: '10m',
    fires: { [DEAD_LETTERS]: '1x20' },
    quiet: { [DEAD_LETTERS]: '0x7 1x20' },
  },
  QuestlogEventsMissing: { at: '10m', fires: { [LEDGER]: '301x20' }, quiet: { [LEDGER]: '300x20' } },
  QuestlogLogTruncated: { at: '10m', fires: { [CUTS]: '_x5 1x20' }, quiet: { [CUTS]: '0x20' } },
  QuestlogPartitionOutage: { at: '10m', fires: { [OUTAGE]: '_x5 31x20' }, quiet: { [OUTAGE]: '_x5 30x20' } },
  QuestlogLookupsFail: {
    at: '30m',
    fires: { [LOOKUPS]: '0+1x60' },
    quiet: { [LOOKUPS]: '0x15 1x60' },
  },
  QuestlogLookupsWait: { at: '10m', fires: { [LOOKUP_WAIT]: '31x20' }, quiet: { [LOOKUP_WAIT]: '30x20' } },
  QuestlogOpenReportsNearLimit: {
    at: '10m',
    fires: { [OPEN_REPORTS]: '45001x20' },
    quiet: { [OPEN_REPORTS]: '45000x20' },
  },
  QuestlogDiskNearlyFull: {
    at: '10m',
    fires: resource('clickhouse_disk_bytes', 91, 100),
    quiet: resource('data_folder_bytes', 90, 100),
  },
  QuestlogResourceSaturated: {
    at: '10m',
    fires: resource('reads', 91, 100),
    quiet: { ...resource('reads', 90, 100), ...resource('replayable_events', 100, 100) },
  },
  QuestlogAppendsSlow: {
    at: '20m',
    fires: calls(APPENDS, 1, 2),
    quiet: calls(APPENDS, 1, 1),
  },
  QuestlogInsertsSlow: {
    at: '20m',
    fires: calls(INSERTS, 2.5, 2, 'table="events",'),
    quiet: calls(INSERTS, 2.5, 1, 'table="events",'),
  },
  QuestlogTooManyParts: { at: '10m', fires: { [PARTS]: '901x20' }, quiet: { [PARTS]: '900x20' } },
  QuestlogReplicaUnusable: {
    at: '10m',
    fires: { [REACHABLE]: '0x20', [REPLICA_LAG]: 'stale' },
    quiet: { [REACHABLE]: '0x8 1x20' },
  },
  QuestlogShardUnusable: { at: '10m', fires: { [SHARD]: '0x20' }, quiet: { [SHARD]: '1x20' } },
  QuestlogQuorumLowered: { at: '15m', fires: { [QUORUM]: '1x20' }, quiet: { [QUORUM]: '0x8 1x20' } },
  QuestlogRateLimited: {
    at: '20m',
    fires: { [RATE_LIMITED]: '0+60x30' },
    quiet: { [RATE_LIMITED]: '0x14 60x20' },
  },
};

test('each alert has samples for which it fires', () => {
  expect(Object.keys(CASES).toSorted()).toEqual(alerts.map(({ alert }) => alert).toSorted());
});

/** Time of the check, samples that fulfill only some of the conditions of a rule, and all alerts that fire. */
const CONDITIONS: readonly (readonly [at: string, series: Series, firing: readonly string[]])[] = [
  // Requests failed in the last hour only, and 5 hours of success precede this hour.
  ['6h', { [FAILED]: '0x300 0+25x60' }, ['QuestlogEventsFail', 'QuestlogSomeEventsFail']],
  // Less than 1.44 % of the requests fail.
  ['70m', { [FAILED]: '0+10x6000' }, ['QuestlogEventsFail', 'QuestlogSomeEventsFail']],
  // Requests failed in the last 20 minutes only.
  ['360m', { [FAILED]: '0x340 0+30x20' }, []],
  // No request has failed for 36 minutes.
  ['75m', { [FAILED]: '0+200x39 7800x60' }, ['QuestlogSomeEventsFail']],
  // The traffic of the first 6 hours was 100 times as large, and no request failed.
  [
    '31h',
    { [EVENTS]: '0+100000x360 36000000+1000x1500', [FAILED]: '0x360 0+4x1500' },
    ['QuestlogSomeEventsFail'],
  ],
  // Less than 0.3 % of the requests fail.
  ['25h', { [FAILED]: '0+2x6000' }, ['QuestlogSomeEventsFail']],
  // Requests failed in the last 2 hours only.
  ['13h', { [FAILED]: '0x660 0+4x120' }, []],
  // No request has failed for 23 hours.
  ['25h', { [FAILED]: '0+100x120 12000x6000' }, []],
  // The projector has been late for 15 minutes.
  ['320m', { [LAG]: '1x304 21x20' }, ['QuestlogProjectionLate']],
  // The projector is late for 10 % of the time.
  ['70m', { [LAG]: '21x0 1x8 '.repeat(9) }, ['QuestlogProjectionLate', 'QuestlogProjectionSometimesLate']],
  // The projector was late in the last 5 minutes only.
  ['320m', { [LAG]: '1x314 21x20' }, []],
  // The projector has not been late for 35 minutes.
  ['75m', { [LAG]: '21x39 1x60' }, ['QuestlogProjectionSometimesLate']],
  // Prometheus did not scrape for 20 hours.
  [
    '40h',
    { [BUILD]: '1x960 stale _x1198 1x300', [LAG]: `1x960 stale _x1198 ${'21x0 1x123 '.repeat(3)}` },
    ['QuestlogProjectionSometimesLate'],
  ],
  // The projector is late for 2 % of the time.
  ['25h', { [LAG]: '21x0 1x248 '.repeat(10) }, ['QuestlogProjectionSometimesLate']],
  // The projector was late once in 13 hours.
  ['13h', { [LAG]: '1x739 21x0 1x500' }, []],
  // The projector has not been late for 22 hours.
  ['25h', { [LAG]: '21x180 1x1500' }, []],
  // No process was ever scraped.
  ['10m', { [BUILD]: '_x20' }, ['QuestlogAbsent']],
  ['20m', { [DEAD_LETTERS]: '0x2 stale' }, ['QuestlogMeasurementMissing']],
  ['20m', { [PARTS]: '10x2 stale' }, ['QuestlogMeasurementMissing']],
  // Operations cannot read the oldest unprocessed record of a group, or the offsets of a group.
  ['20m', { [LINK_LAG]: '1x2 stale' }, ['QuestlogMeasurementMissing']],
  ['20m', { [LINK_LAG]: '1x2 stale _x8 1x20' }, []],
  ['20m', { [LINK_LAG_AT]: '0+60x2 120x40' }, ['QuestlogMeasurementMissing']],
  // Operations cannot read the log.
  [
    '10m',
    { [LAG_AT]: '0+60x3 180x40', [LINK_LAG_AT]: '0+60x3 180x40' },
    ['QuestlogLagUnknown', 'QuestlogProjectionLate'],
  ],
  // A process that has run for longer than the range of the rule counts a bug, or a truncation.
  [
    '20m',
    { 'questlog_http_requests_total{route="/v1/reports",status="500"}': '0x15 1x20' },
    ['QuestlogBugs'],
  ],
  ['70m', { [CUTS]: '0x65 1x20' }, ['QuestlogLogTruncated']],
  ['10m', resource('data_folder_bytes', 91, 100), ['QuestlogDiskNearlyFull']],
  // A replica has no Keeper, lacks recent rows, or has a wrong clock.
  ['10m', { [READ_ONLY]: '1x20' }, ['QuestlogReplicaUnusable']],
  ['10m', { [REPLICA_LAG]: '61x20' }, ['QuestlogReplicaUnusable']],
  ['10m', { [REPLICA_LAG]: '60x20' }, []],
  ['10m', { [CLOCK]: '2.1x20' }, ['QuestlogReplicaUnusable']],
  ['10m', { [CLOCK]: '2x20' }, []],
  // One of two operations processes cannot reach a replica.
  ['10m', { 'questlog_clickhouse_replica_reachable{node="http://ch1",shard="1",instance="b"}': '0x20' }, []],
  ['10m', { ...resource('open_report_ids', 100, 100), ...resource('linker_open_reports', 100, 100) }, []],
];

/** Samples of conditions that are no failure. */
const HARMLESS: readonly Series[] = [
  // The operations process of a new deployment starts after the other processes.
  { [LAG]: '_x2 1x40', [LAG_AT]: '_x2 120+60x40', [LINK_LAG_AT]: '_x2 120+60x40' },
  // One of two operations processes cannot read the log, and still reports its last measurement.
  {
    'questlog_group_lag_seconds{group="questlog-project-events",topic="questlog.events.v1",instance="other"}':
      '99x40',
    'questlog_group_lag_timestamp_seconds{group="questlog-project-events",topic="questlog.events.v1",instance="other"}':
      '-120x40',
    'questlog_group_lag_retention_ratio{group="questlog-project-events",topic="questlog.events.v1",instance="other"}':
      '0.5x40',
  },
];

const promtool = findProgram('promtool');
const amtool = findProgram('amtool');
if (amtool === undefined)
  console.log(
    'skipped: the test of the configurations needs amtool (Debian package prometheus-alertmanager)',
  );
if (promtool === undefined)
  console.log('skipped: the tests of the alerts need promtool (Debian package prometheus)');

test.skipIf(promtool === undefined)('each alert fires above its threshold only, and alone', () => {
  const folder = mkdtempSync(join(tmpdir(), 'questlog-rules-'));
  try {
    const files = ['1m', '5m'].map((interval) => {
      const cases = Object.entries(CASES).flatMap(([alert, { at, fires, quiet, others = [] }]) => [
        { at, series: fires, firing: [alert, ...others] },
        { at, series: quiet, firing: others },
      ]);
      const further = CONDITIONS.map(([at, series, firing]) => ({ at, series, firing }));
      const harmless = HARMLESS.map((series) => ({ at: '20m', series, firing: [] }));
      const tests = [...cases, ...further, ...harmless]
        .filter(({ at }) => (interval === '5m') === at.endsWith('h'))
        .map(({ at, series, firing }) => expecting(firing, at, { ...HEALTHY, ...series }));
      const file = join(folder, `${interval}.json`);
      writeFileSync(file, JSON.stringify({ rule_files: [RULES], evaluation_interval: interval, tests }));
      return file;
    });
    execFileSync(promtool ?? '', ['test', 'rules', ...files], { encoding: 'utf8' });
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test.skipIf(promtool === undefined || amtool === undefined)(
  'Prometheus and Alertmanager accept the configurations of docker-compose.yml',
  () => {
    const folder = join(ROOT, 'deploy/monitoring');
    execFileSync(promtool ?? '', ['check', 'config', join(folder, 'prometheus.yaml')]);
    execFileSync(amtool ?? '', ['check-config', join(folder, 'alertmanager.yaml')]);
  },
);

/** Returns a test of promtool that expects the alerts `firing`, and no other alerts. */
function expecting(firing: readonly string[], at: string, series: Series) {
  const samples = firing.map((alertname) => ({ labels: `{alertname="${alertname}"}`, value: 1 }));
  return {
    interval: '1m',
    input_series: Object.entries(series).map(([one, values]) => ({ series: one, values })),
    promql_expr_test: [
      { expr: 'count by (alertname) (ALERTS{alertstate="firing"})', eval_time: at, exp_samples: samples },
    ],
  };
}

test.skipIf(promtool === undefined)('the metrics follow the naming rules of Prometheus', async () => {
  execFileSync(promtool ?? '', ['check', 'metrics'], { input: await allMetrics().metrics() });
});

test('each alert has a severity, a value in its description, and a page that describes what to do', () => {
  for (const { alert, expr, labels, annotations } of alerts) {
    expect([alert, labels?.severity]).toEqual([alert, expect.stringMatching(/^(critical|warning|info)$/)]);
    expect([alert, annotations?.summary]).toEqual([alert, expect.stringMatching(/\.$/)]);
    const describesValue = /\{\{ \$value/.test(annotations?.description ?? '') || expr.startsWith('absent');
    expect([alert, describesValue]).toEqual([alert, true]);
    const [page = '', anchor] = (annotations?.runbook_url ?? '').replace(PAGES, '').split('#');
    expect([alert, page, existsSync(join(ROOT, page))]).toEqual([alert, page, true]);
    expect([alert, anchor]).toEqual([alert, undefined]);
  }
});

test('the rules use only metrics of the reference, and only recorded series', () => {
  const reference = readFileSync(join(ROOT, 'docs/reference/metrics.md'), 'utf8');
  const recorded = new Set(rules.map(({ record }) => record));
  for (const { expr } of rules) {
    for (const [series] of expr.matchAll(/questlog[\w:]+/g))
      if (series.includes(':')) expect(recorded).toContain(series);
      else expect(reference).toContain(`\`${series.replace(/_bucket$/, '')}\``);
  }
});
