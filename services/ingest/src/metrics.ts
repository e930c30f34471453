/** What ingest tells Prometheus: name, type, unit and meaning. */
import { type Exposition, keepDeprecatedName, type MetricsRegistry } from '@questlog/runtime/process/metrics';
import { Counter, Gauge, Histogram } from 'prom-client';

export type IngestMetrics = ReturnType<typeof ingestMetrics>;

/** @param exposition what is answered for it; of several workers it tells of all. */
export function ingestMetrics(registry: MetricsRegistry, exposition: Exposition = registry) {
  const registers = [registry];
  const gauge = (name: string, help: string) => new Gauge({ name, help, registers });
  const metrics = {
    exposition,
    requests: new Counter({
      name: 'questlog_http_requests_total',
      help: 'Answered requests.',
      labelNames: ['route', 'method', 'status'],
      registers,
    }),
    requestSeconds: new Histogram({
      name: 'questlog_http_request_duration_seconds',
      help: 'Time from the request line to the last byte of the answer.',
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
      help: 'Accepted events past their tenant’s monthly soft quota.',
      registers,
    }),
    replays: new Counter({
      name: 'questlog_idempotent_replays_total',
      help: 'Requests answered with the stored events of an earlier one with the same key.',
      registers,
    }),
    ...rejectionMetrics(registers),
    ...groupLagMetrics(registers),
    ledgerDropped: new Counter({
      name: 'questlog_ledger_dropped_changes_total',
      help: 'Changes of the books that `ledger` lacks, since ClickHouse was away or a bound was met.',
      registers,
    }),
    ...truncationMetrics(registers),
    deadLettersOpen: new Gauge({
      name: 'questlog_dead_letters_open',
      help: 'Dead letters that nobody has replayed or discarded, by the consumer group they are of, `other` where it is none of Questlog’s; the same at each ingest.',
      labelNames: ['group'],
      registers,
    }),
    bodyBytesInFlight: gauge('questlog_in_flight_body_bytes', 'Bytes of request bodies in memory.'),
    uploadsInFlight: gauge(
      'questlog_uploads_in_flight',
      'Files whose bytes are coming (`PUT` of an upload’s address).',
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
      help: 'Events that a switch refused, or answered and left out of its sample; by its action.',
      labelNames: ['action'],
      registers,
    }),
    rejectsDropped: new Counter({
      name: 'questlog_rejects_dropped_total',
      help: 'Refused requests, elements and fields that are not counted in `rejects`, since ClickHouse was away or a bound was met.',
      registers,
    }),
  };
}

function truncationMetrics(registers: MetricsRegistry[]) {
  return {
    logTruncations: new Counter({
      name: 'questlog_log_cuts_total',
      help: 'Cuts of the log that this process came upon: it had read or appended what is no longer there.',
      labelNames: ['topic'],
      registers,
    }),
    appendedAgain: new Counter({
      name: 'questlog_records_appended_again_total',
      help: 'Records that a cut had taken from the log and that this process has put back; each that knew them does.',
      labelNames: ['topic'],
      registers,
    }),
    lostAppends: new Counter({
      name: 'questlog_log_lost_records_total',
      help: 'Records of events that this process had acknowledged and that a cut has taken before they were projected: see the table truncations. It remembers its last 65,536.',
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
      help: 'What a consumer group has not processed yet, told by each ingest, also while no process of the group runs: do not add them up.',
      ...of,
    }),
    groupLagSeconds: new Gauge({
      name: 'questlog_group_lag_seconds',
      help: 'The age of the oldest of them, to within 10 s; missing where the log did not tell it.',
      ...of,
    }),
    groupLagRatio: new Gauge({
      name: 'questlog_group_lag_retention_ratio',
      help: 'That age as a share of the time for which the log keeps the topic: at 1 records are lost.',
      ...of,
    }),
    groupLagTime: new Gauge({
      name: 'questlog_group_lag_timestamp_seconds',
      help: 'When the log told them, every 10 s where it answers: `time()` less this is their age.',
      ...of,
    }),
  };
}
