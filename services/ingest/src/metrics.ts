/** Defines the Prometheus metrics of ingest: name, type, unit, and meaning. */
import { type Exposition, keepDeprecatedName, type MetricsRegistry } from '@questlog/runtime/process/metrics';
import { Counter, Gauge, Histogram } from 'prom-client';

export type IngestMetrics = ReturnType<typeof ingestMetrics>;

export function ingestMetrics(registry: MetricsRegistry, exposition: Exposition = registry) {
  const registers = [registry];
  const gauge = (name: string, help: string) => new Gauge({ name, help, registers });
  const metrics = {
    exposition,
    requests: new Counter({
      name: 'questlog_http_requests_total',
      help: 'Requests that were answered.',
      labelNames: ['route', 'method', 'status'],
      registers,
    }),
    requestSeconds: new Histogram({
      name: 'questlog_http_request_duration_seconds',
      help: 'Time from the request line to the last byte of the response.',
      labelNames: ['route'],
      buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10],
      registers,
    }),
    accepted: new Counter({
      name: 'questlog_events_accepted_total',
      help: 'Events stored in the log and acknowledged.',
      registers,
    }),
    overQuota: new Counter({
      name: 'questlog_events_over_quota_total',
      help: 'Accepted events that exceed the monthly soft quota of their tenant.',
      registers,
    }),
    replays: new Counter({
      name: 'questlog_idempotent_replays_total',
      help: 'Requests that were answered with the stored events of an earlier request with the same idempotency key.',
      registers,
    }),
    ...rejectionMetrics(registers),
    ...groupLagMetrics(registers),
    ledgerDropped: new Counter({
      name: 'questlog_ledger_dropped_changes_total',
      help: 'Changes of the ledger that were dropped because ClickHouse was unavailable or a limit was reached. The table `ledger` lacks them.',
      registers,
    }),
    ...truncationMetrics(registers),
    deadLettersOpen: new Gauge({
      name: 'questlog_dead_letters_open',
      help: 'Dead letters that were neither replayed nor discarded, by consumer group. Groups of other programs count as `other`. Each ingest reports the same value.',
      labelNames: ['group'],
      registers,
    }),
    bodyBytesInFlight: gauge('questlog_in_flight_body_bytes', 'Bytes of request bodies in memory.'),
    uploadsInFlight: gauge(
      'questlog_uploads_in_flight',
      'Uploads whose bytes are being received (`PUT` to the address of an upload).',
    ),
    linkedEventStreams: gauge(
      'questlog_linked_event_streams',
      'Open streams of linked events (`GET /v1/linked-events`).',
    ),
  };
  keepDeprecatedName(
    metrics.bodyBytesInFlight,
    { name: 'questlog_body_bytes_in_flight', replacement: 'questlog_in_flight_body_bytes' },
    registers,
  );
  keepDeprecatedName(
    metrics.rateLimited,
    {
      ...{ name: 'questlog_rejects_by_limit_total', labelNames: ['limit'] },
      replacement: 'questlog_rate_limited_total',
    },
    registers,
  );
  return metrics;
}

function rejectionMetrics(registers: MetricsRegistry[]) {
  return {
    rateLimited: new Counter({
      name: 'questlog_rate_limited_total',
      help: 'Rejected events of the limits that count events, and rejected requests of all other limits and of suspended projects and tenants, by limit.',
      labelNames: ['limit'],
      registers,
    }),
    switched: new Counter({
      name: 'questlog_events_switched_total',
      help: 'Events that a switch rejected, or accepted without storing them because they are outside its sample, by action.',
      labelNames: ['action'],
      registers,
    }),
    rejectsDropped: new Counter({
      name: 'questlog_rejects_dropped_total',
      help: 'Rejections of requests, elements, and fields that the table `rejects` lacks, because ClickHouse was unavailable or a limit was reached.',
      registers,
    }),
  };
}

function truncationMetrics(registers: MetricsRegistry[]) {
  return {
    logTruncations: new Counter({
      name: 'questlog_log_cuts_total',
      help: 'Truncations of the log that this process detected: the log has lost records that this process had read or appended.',
      labelNames: ['topic'],
      registers,
    }),
    appendedAgain: new Counter({
      name: 'questlog_records_appended_again_total',
      help: 'Records that a truncated log had lost and that this process appended again. Every process that has these records in memory appends them.',
      labelNames: ['topic'],
      registers,
    }),
    lostAppends: new Counter({
      name: 'questlog_log_lost_records_total',
      help: 'Acknowledged records of events that a truncated log lost before they were projected. The table `truncations` shows details. A process remembers its last 65,536 records.',
      labelNames: ['topic', 'partition'],
      registers,
    }),
  };
}

function groupLagMetrics(registers: MetricsRegistry[]) {
  const of = { labelNames: ['group', 'topic'] as const, registers };
  return {
    groupLagRecords: new Gauge({
      name: 'questlog_group_lag_records',
      help: 'Records that a consumer group has not processed yet. Each ingest reports the same value, also while no process of the group runs: do not add the values.',
      ...of,
    }),
    groupLagSeconds: new Gauge({
      name: 'questlog_group_lag_seconds',
      help: 'Age of the oldest record that a consumer group has not processed yet, accurate to 10 s. Absent if the log did not return the record.',
      ...of,
    }),
    groupLagRatio: new Gauge({
      name: 'questlog_group_lag_retention_ratio',
      help: 'Age of the oldest unprocessed record, divided by the retention time of the topic. At 1, records are lost.',
      ...of,
    }),
    groupLagTime: new Gauge({
      name: 'questlog_group_lag_timestamp_seconds',
      help: 'Time at which the lag was last read from the log, normally every 10 s. `time()` minus this value is the age of the lag metrics.',
      ...of,
    }),
  };
}
