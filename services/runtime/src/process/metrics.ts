/** The one catalogue of metrics: name, type, unit and meaning; `/metrics` and `docs/reference/metrics.md` show it. */
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';

export type Metrics = ReturnType<typeof createMetrics>;

export function createMetrics() {
  const registry = new Registry();
  const registers = [registry];
  collectDefaultMetrics({ register: registry });
  return { registry, ...ofIngest(registers), ...ofProjector(registers), ...ofLinker(registers) };
}

function ofIngest(registers: Registry[]) {
  return {
    requests: new Counter({
      name: 'questlog_http_requests_total',
      help: 'Answered requests by route, method and status.',
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
    bodyBytesInFlight: new Gauge({
      name: 'questlog_body_bytes_in_flight',
      help: 'Bytes of request bodies in memory.',
      registers,
    }),
    linkedEventStreams: new Gauge({
      name: 'questlog_linked_event_streams',
      help: 'Open streams of linked events (`GET /v1/linked-events`).',
      registers,
    }),
  };
}

function ofProjector(registers: Registry[]) {
  return {
    projected: new Counter({
      name: 'questlog_projector_records_total',
      help: 'Records by topic and outcome: `written`, `repeated` (dropped), `ignored`, `dead` (dead-lettered).',
      labelNames: ['topic', 'outcome'],
      registers,
    }),
    blockSeconds: new Histogram({
      name: 'questlog_projector_block_duration_seconds',
      help: 'Time to decode, insert and commit one block.',
      labelNames: ['topic'],
      buckets: [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30],
      registers,
    }),
    projectorLag: new Gauge({
      name: 'questlog_projector_lag_records',
      help: 'Records that are not in ClickHouse yet, by topic. Each projector reports the total: do not add them up.',
      labelNames: ['topic'],
      registers,
    }),
  };
}

function ofLinker(registers: Registry[]) {
  return {
    linkChanges: new Counter({
      name: 'questlog_link_changes_total',
      help: 'Links made and retracted, by kind and source.',
      labelNames: ['kind', 'source'],
      registers,
    }),
    unresolvedLinks: new Counter({
      name: 'questlog_links_unresolved_total',
      help: 'Named events that had not come when their report’s grace ended.',
      registers,
    }),
    openReports: new Gauge({
      name: 'questlog_linker_open_reports',
      help: 'Reports that a partition matches with each event.',
      labelNames: ['partition'],
      registers,
    }),
    openReportEventIds: new Gauge({
      name: 'questlog_linker_open_event_ids',
      help: 'Events that the open reports name.',
      labelNames: ['partition'],
      registers,
    }),
    lookUpSeconds: new Histogram({
      name: 'questlog_linker_look_up_duration_seconds',
      help: 'Time of a look-up in ClickHouse, by kind, with its wait for the projection.',
      labelNames: ['kind'],
      buckets: [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60],
      registers,
    }),
    failedLookUps: new Counter({
      name: 'questlog_linker_look_up_failures_total',
      help: 'Look-ups that failed, by kind; each is retried.',
      labelNames: ['kind'],
      registers,
    }),
    linkerLag: new Gauge({
      name: 'questlog_linker_lag_records',
      help: 'Records that no linker has processed yet, by topic. Each linker reports the total: do not add them up.',
      labelNames: ['topic'],
      registers,
    }),
  };
}
