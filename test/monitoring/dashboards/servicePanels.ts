/** Panels of the dashboards about the services, the log, and ClickHouse. Their queries are PromQL. */
import { type PanelOptions, stat, timeseries } from './panels.ts';

/** Selects the series of a deployment, and the series of a service of the deployment. */
export const DEPLOYMENT = 'cluster=~"$cluster", namespace=~"$namespace"';
export const SERVICE = `${DEPLOYMENT}, job=~"$service"`;

/** Reason why the panel of a rate has no thresholds. */
export const ANY_RATE = 'The normal rate depends on the games.';
/** Lowest rate per second that counts as more than zero. */
export const ABOVE_ZERO = 0.001;

export const rate = (by: string, metric: string, selector: string): string =>
  `sum by (${by}) (rate(${metric}{${selector}}[$__rate_interval]))`;
const quantile = (q: number, by: string, histogram: string, selector: string): string =>
  `histogram_quantile(${q}, ${rate(['le', by].filter(Boolean).join(', '), `${histogram}_bucket`, selector)})`;
/** A counter without increments has no series yet. */
const orZero = (expr: string): string => `${expr} or vector(0)`;

const ACCEPTED: PanelOptions = {
  title: 'Accepted events',
  unit: 'cps',
  noThresholds: ANY_RATE,
  queries: { 'events per second': `sum(rate(questlog_events_accepted_total{${SERVICE}}[$__rate_interval]))` },
};
const RESOURCES: PanelOptions = {
  title: 'Use of bounded resources',
  unit: 'percentunit',
  ...{ orange: 0.8, red: 1 },
  description: 'At 100 %, a process rejects or delays requests, or evicts entries of a cache.',
  queries: {
    '{{resource}}': `topk(8, max by (resource) (questlog_resource_used{${SERVICE}} / questlog_resource_limit{${SERVICE}}))`,
  },
};
const GROUP_LAG: PanelOptions = {
  title: 'Age of the oldest unprocessed record',
  unit: 's',
  ...{ orange: 20, red: 60 },
  queries: { '{{group}} {{topic}}': `max by (group, topic) (questlog_group_lag_seconds{${DEPLOYMENT}})` },
};

export const OVERVIEW = [
  stat({
    title: 'Critical alerts',
    unit: 'short',
    ...{ orange: 1, red: 1 },
    queries: {
      alerts: `count(ALERTS{alertstate="firing", severity="critical", ${DEPLOYMENT}}) or vector(0)`,
    },
  }),
  stat({
    title: 'Failed event requests',
    unit: 'percentunit',
    ...{ orange: 0.001, red: 0.0144 },
    description:
      'Share of valid event requests with a 5xx response in 5 minutes. The objective allows 0.1 %.',
    queries: { failed: orZero(`max(questlog:event_requests_failed:ratio_rate5m{${DEPLOYMENT}})`) },
  }),
  stat({
    title: 'Late projection',
    unit: 'percentunit',
    ...{ orange: 0.01, red: 0.144 },
    description:
      'Share of the last hour in which ClickHouse lacked events older than 20 s. The objective allows 1 %.',
    queries: { late: `max(questlog:projection_late:ratio1h{${DEPLOYMENT}})` },
  }),
  stat({
    title: 'Missing events',
    unit: 'short',
    ...{ orange: 1, red: 1 },
    description:
      'Accepted events that are missing in ClickHouse. Events that the projector has not processed yet do not count.',
    queries: { events: `max(questlog_ledger_difference_events{${DEPLOYMENT}})` },
  }),
  stat({
    title: 'Open dead letters',
    unit: 'short',
    ...{ orange: 1, red: 100 },
    queries: { letters: orZero(`sum(max by (group) (questlog_dead_letters_open{${DEPLOYMENT}}))`) },
  }),
  stat({
    title: 'Processes',
    unit: 'short',
    noThresholds: 'The number of processes depends on the deployment.',
    queries: { processes: `count(questlog_build_info{${DEPLOYMENT}})` },
  }),
  timeseries(ACCEPTED),
  timeseries({
    title: 'Responses',
    unit: 'reqps',
    noThresholds: `${ANY_RATE} *Failed event requests* has thresholds for the share of failures.`,
    queries: {
      '{{status}}': `sum by (status) (rate(questlog_http_requests_total{${SERVICE}}[$__rate_interval]))`,
    },
  }),
  timeseries({
    title: 'Time of event requests',
    unit: 's',
    ...{ orange: 0.5, red: 2.5 },
    queries: Object.fromEntries(
      [0.5, 0.99].map((q) => [
        `p${100 * q}`,
        quantile(q, '', 'questlog_http_request_duration_seconds', `${SERVICE}, route="/v1/ingest/events"`),
      ]),
    ),
  }),
  timeseries(GROUP_LAG),
  timeseries(RESOURCES),
  timeseries({
    title: 'CPU',
    unit: 'percentunit',
    ...{ orange: 0.6, red: 0.9 },
    description: '100 % is one core.',
    queries: { '{{job}} {{instance}}': `rate(process_cpu_seconds_total{${SERVICE}}[$__rate_interval])` },
  }),
  timeseries({
    title: 'Memory',
    unit: 'bytes',
    noThresholds: 'The memory limit of a process depends on the deployment.',
    queries: { '{{job}} {{instance}}': `process_resident_memory_bytes{${SERVICE}}` },
  }),
  timeseries({
    title: 'Delay of the event loop, 99th percentile',
    unit: 's',
    ...{ orange: 0.1, red: 0.5 },
    description: 'Without the 0.25 s between two measurements.',
    queries: { '{{job}} {{instance}}': `nodejs_eventloop_lag_p99_seconds{${SERVICE}} - 0.25` },
  }),
  timeseries({
    title: 'Versions',
    unit: 'short',
    noThresholds: 'Two versions are normal during an upgrade.',
    queries: { '{{version}} {{revision}}': `count by (version, revision) (questlog_build_info{${SERVICE}})` },
  }),
];

export const INGEST = [
  timeseries(ACCEPTED),
  timeseries({
    title: 'Requests by route',
    unit: 'reqps',
    noThresholds: ANY_RATE,
    queries: { '{{method}} {{route}}': rate('method, route', 'questlog_http_requests_total', SERVICE) },
  }),
  timeseries({
    title: 'Rejected and failed requests',
    unit: 'reqps',
    noThresholds:
      'Games can cause any rate of 4xx responses. *Failed event requests* of the dashboard *Overview* has thresholds for 5xx responses.',
    queries: {
      '{{status}} {{route}}': orZero(
        rate('status, route', 'questlog_http_requests_total', `${SERVICE}, status=~"[45].."`),
      ),
    },
  }),
  timeseries({
    title: 'Duration by route, 99th percentile',
    unit: 's',
    ...{ orange: 2.5, red: 10 },
    description: 'Without the streams of linked events, which last until the client ends them.',
    queries: {
      '{{route}}': quantile(
        0.99,
        'route',
        'questlog_http_request_duration_seconds',
        `${SERVICE}, route!="/v1/linked-events"`,
      ),
    },
  }),
  timeseries({
    title: 'Time of an append to the log',
    unit: 's',
    ...{ orange: 0.25, red: 2.5 },
    queries: Object.fromEntries(
      [0.5, 0.99].map((q) => [
        `p${100 * q}`,
        quantile(q, '', 'questlog_log_append_duration_seconds', SERVICE),
      ]),
    ),
  }),
  timeseries(RESOURCES),
  timeseries({
    title: 'Rate-limited events and requests',
    unit: 'cps',
    orange: ABOVE_ZERO,
    queries: { '{{limit}}': orZero(rate('limit', 'questlog_rate_limited_total', SERVICE)) },
  }),
  timeseries({
    title: 'Replays, events over quota, switched events',
    unit: 'cps',
    noThresholds: 'Clients repeat requests, and operators set quotas and switches.',
    queries: {
      replays: `sum(rate(questlog_idempotent_replays_total{${SERVICE}}[$__rate_interval]))`,
      'over quota': `sum(rate(questlog_events_over_quota_total{${SERVICE}}[$__rate_interval]))`,
      'switch: {{action}}': orZero(rate('action', 'questlog_events_switched_total', SERVICE)),
    },
  }),
  timeseries({
    title: 'Outages of partitions',
    unit: 's',
    ...{ orange: 5, red: 30 },
    queries: {
      '{{topic}}/{{partition}} {{doing}}': orZero(
        `max by (topic, partition, doing) (questlog_log_partition_outage_seconds{${SERVICE}})`,
      ),
    },
  }),
  timeseries({
    title: 'Open files',
    unit: 'percentunit',
    ...{ orange: 0.8, red: 0.95 },
    description: 'Each connection is an open file.',
    queries: { '{{job}} {{instance}}': `process_open_fds{${SERVICE}} / process_max_fds{${SERVICE}}` },
  }),
  timeseries({
    title: 'Streams and uploads',
    unit: 'short',
    noThresholds: '*Use of bounded resources* has thresholds for the limits of streams and uploads.',
    queries: {
      streams: `sum(questlog_linked_event_streams{${SERVICE}})`,
      uploads: `sum(questlog_uploads_in_flight{${SERVICE}})`,
    },
  }),
  timeseries({
    title: 'Dropped changes of the ledger, dropped rejections',
    unit: 'cps',
    ...{ orange: ABOVE_ZERO, red: ABOVE_ZERO },
    queries: {
      ledger: `sum(rate(questlog_ledger_dropped_changes_total{${SERVICE}}[$__rate_interval]))`,
      rejections: `sum(rate(questlog_rejects_dropped_total{${SERVICE}}[$__rate_interval]))`,
    },
  }),
];

export const CONSUMERS = [
  timeseries(GROUP_LAG),
  timeseries({
    title: 'Unprocessed records',
    unit: 'short',
    noThresholds: '*Age of the oldest unprocessed record* has thresholds.',
    queries: { '{{group}} {{topic}}': `max by (group, topic) (questlog_group_lag_records{${DEPLOYMENT}})` },
  }),
  timeseries({
    title: 'Lag as a share of the retention',
    unit: 'percentunit',
    ...{ orange: 0.1, red: 0.5 },
    description: 'At 100 %, the log deletes unread records.',
    queries: {
      '{{group}} {{topic}}': `max by (group, topic) (questlog_group_lag_retention_ratio{${DEPLOYMENT}})`,
    },
  }),
  timeseries({
    title: 'Age of the lag metrics',
    unit: 's',
    ...{ orange: 30, red: 60 },
    queries: { age: `time() - max(questlog_group_lag_timestamp_seconds{${DEPLOYMENT}})` },
  }),
  timeseries({
    title: 'Records of the projector',
    unit: 'cps',
    noThresholds: ANY_RATE,
    queries: { '{{topic}} {{outcome}}': rate('topic, outcome', 'questlog_projector_records_total', SERVICE) },
  }),
  timeseries({
    title: 'Time of a block, 99th percentile',
    unit: 's',
    ...{ orange: 2.5, red: 10 },
    queries: { '{{topic}}': quantile(0.99, 'topic', 'questlog_projector_block_duration_seconds', SERVICE) },
  }),
  timeseries({
    title: 'Time of an append to the log, 99th percentile',
    unit: 's',
    ...{ orange: 0.25, red: 2.5 },
    queries: { '{{job}}': quantile(0.99, 'job', 'questlog_log_append_duration_seconds', SERVICE) },
  }),
  timeseries({
    title: 'Missing events',
    unit: 'short',
    ...{ orange: 1, red: 1 },
    queries: { events: `max(questlog_ledger_difference_events{${DEPLOYMENT}})` },
  }),
  timeseries({
    title: 'Age of the oldest missing event',
    unit: 's',
    ...{ orange: 60, red: 300 },
    queries: { age: `max(questlog_ledger_difference_age_seconds{${DEPLOYMENT}})` },
  }),
  timeseries({
    title: 'Truncations of the log',
    unit: 'short',
    ...{ orange: 1, red: 1 },
    queries: {
      'truncations of {{topic}}': orZero(`sum by (topic) (questlog_log_truncations_total{${DEPLOYMENT}})`),
      'lost before projection': orZero(`sum(questlog_log_lost_records_total{${DEPLOYMENT}})`),
      'lost after projection': orZero(`sum(questlog_log_truncated_records_total{${DEPLOYMENT}})`),
    },
  }),
  timeseries({
    title: 'Open reports of the linker',
    unit: 'short',
    ...{ orange: 25_000, red: 45_000 },
    description: 'The limit is 50,000 per partition.',
    queries: {
      'partition {{partition}}': `max by (partition) (questlog_linker_open_reports{${DEPLOYMENT}})`,
    },
  }),
  timeseries({
    title: 'Lookups of the linker',
    unit: 's',
    ...{ orange: 10, red: 30 },
    queries: {
      'p99 {{kind}}': quantile(0.99, 'kind', 'questlog_linker_look_up_duration_seconds', SERVICE),
      'failures per second': orZero(
        `sum(rate(questlog_linker_look_up_failures_total{${SERVICE}}[$__rate_interval]))`,
      ),
    },
  }),
];

const DISKS = `${DEPLOYMENT}, resource=~"data_folder_bytes|.+_disk_bytes"`;

export const CLICKHOUSE = [
  timeseries({
    title: 'Time of an insert, 99th percentile',
    unit: 's',
    ...{ orange: 1, red: 10 },
    queries: { '{{table}}': quantile(0.99, 'table', 'questlog_clickhouse_insert_duration_seconds', SERVICE) },
  }),
  timeseries({
    title: 'Inserts',
    unit: 'cps',
    noThresholds: '*Parts in the largest partition* has thresholds for too many inserts.',
    queries: { '{{table}}': rate('table', 'questlog_clickhouse_insert_duration_seconds_count', SERVICE) },
  }),
  timeseries({
    title: 'Parts in the largest partition',
    unit: 'short',
    ...{ orange: 1000, red: 3000 },
    description: 'ClickHouse delays inserts above 1,000 parts, and rejects inserts above 3,000 parts.',
    queries: { '{{table}}': `max by (table) (questlog_clickhouse_partition_parts{${DEPLOYMENT}})` },
  }),
  timeseries({
    title: 'Deduplication window in use',
    unit: 'percentunit',
    ...{ orange: 0.5, red: 0.9 },
    description:
      'Inserts per minute, divided by the number of newest inserts whose repetitions ClickHouse detects.',
    queries: {
      '{{table}}': `60 * sum by (table) (rate(questlog_clickhouse_insert_duration_seconds_count{${SERVICE}}[$__rate_interval])) / max by (table) (questlog_clickhouse_deduplication_window_inserts{${DEPLOYMENT}})`,
    },
  }),
  timeseries({
    title: 'Size of the tables',
    unit: 'bytes',
    noThresholds: 'The size depends on the disk of ClickHouse and on the retention.',
    queries: { '{{table}}': `max by (table) (questlog_clickhouse_table_bytes{${DEPLOYMENT}})` },
  }),
  timeseries({
    title: 'Connections to ClickHouse and S3',
    unit: 'percentunit',
    ...{ orange: 0.7, red: 0.9 },
    description:
      'Requests that use a connection or wait for a connection, as a share of the connections of a process.',
    queries: {
      '{{resource}}': `max by (resource) (questlog_resource_used{${DEPLOYMENT}, resource=~".+_connections"} / questlog_resource_limit)`,
    },
  }),
  timeseries({
    title: 'Reads and lookups of ingest',
    unit: 'short',
    noThresholds: 'The panel shows the limits.',
    description: 'Concurrent queries. Further queries wait.',
    queries: {
      '{{resource}}': `max by (resource) (questlog_resource_used{${DEPLOYMENT}, resource=~"reads|lookups"})`,
      'limit of {{resource}}': `max by (resource) (questlog_resource_limit{${DEPLOYMENT}, resource=~"reads|lookups"})`,
    },
  }),
  timeseries({
    title: 'Free disk space',
    unit: 'bytes',
    ...{ orange: 5 * 2 ** 30, red: 2 ** 30 },
    description: 'The disk of the data folder, and the fullest disks of ClickHouse and of Kafka.',
    queries: {
      '{{resource}}': `min by (resource) (questlog_resource_limit{${DISKS}} - questlog_resource_used)`,
    },
  }),
];
