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
      help: 'From the request line to the last byte of the answer.',
      labelNames: ['route'],
      buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10],
      registers,
    }),
    accepted: new Counter({
      name: 'questlog_events_accepted_total',
      help: 'Events the log took and the game was told of.',
      registers,
    }),
    overQuota: new Counter({
      name: 'questlog_events_over_quota_total',
      help: 'Accepted events that were past their tenant’s monthly soft quota.',
      registers,
    }),
    replays: new Counter({
      name: 'questlog_idempotent_replays_total',
      help: 'Requests answered from what an earlier one with the same key had stored.',
      registers,
    }),
    bodyBytesInFlight: new Gauge({
      name: 'questlog_body_bytes_in_flight',
      help: 'Bytes of request bodies held now.',
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
      help: 'Records by topic and outcome: `written` to ClickHouse, `repeated` (dropped), `ignored`, `dead` (to the dead letters).',
      labelNames: ['topic', 'outcome'],
      registers,
    }),
    blockSeconds: new Histogram({
      name: 'questlog_projector_block_duration_seconds',
      help: 'Decoding and inserting one block, commits included.',
      labelNames: ['topic'],
      buckets: [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30],
      registers,
    }),
    projectorLag: new Gauge({
      name: 'questlog_projector_lag_records',
      help: 'Records of the log that are not in ClickHouse yet, by topic; of all projectors, in every one: do not add them up.',
      labelNames: ['topic'],
      registers,
    }),
  };
}

function ofLinker(registers: Registry[]) {
  return {
    linkChanges: new Counter({
      name: 'questlog_link_changes_total',
      help: 'Links made and taken back by the linker, by kind and source.',
      labelNames: ['kind', 'source'],
      registers,
    }),
    unresolvedLinks: new Counter({
      name: 'questlog_links_unresolved_total',
      help: 'Events that a report names and that had not come when its grace ended.',
      registers,
    }),
    openReports: new Gauge({
      name: 'questlog_linker_open_reports',
      help: 'Reports that a partition of the linker matches as events come.',
      labelNames: ['partition'],
      registers,
    }),
    openReportEventIds: new Gauge({
      name: 'questlog_linker_open_event_ids',
      help: 'Events that these reports name.',
      labelNames: ['partition'],
      registers,
    }),
    lookUpSeconds: new Histogram({
      name: 'questlog_linker_look_up_duration_seconds',
      help: 'One look-up of the linker in ClickHouse, by kind, with its wait for the projection.',
      labelNames: ['kind'],
      buckets: [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60],
      registers,
    }),
    failedLookUps: new Counter({
      name: 'questlog_linker_look_up_failures_total',
      help: 'Look-ups that ClickHouse did not answer, by kind; each is begun again.',
      labelNames: ['kind'],
      registers,
    }),
    linkerLag: new Gauge({
      name: 'questlog_linker_lag_records',
      help: 'Records that no linker has taken in yet, by topic; of all linkers, in every one: do not add them up.',
      labelNames: ['topic'],
      registers,
    }),
  };
}
