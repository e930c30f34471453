/** The one catalogue of metrics: name, type, unit and meaning; `/metrics` and `docs/reference/metrics.md` show it. */
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';

export type Metrics = ReturnType<typeof createMetrics>;

export function createMetrics() {
  const registry = new Registry();
  const registers = [registry];
  collectDefaultMetrics({ register: registry });
  return {
    registry,
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
    projected: new Counter({
      name: 'questlog_projector_records_total',
      help: 'Records written to ClickHouse, dropped as repeated, or dead-lettered, by topic and outcome.',
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
      help: 'Records of the log that are not in ClickHouse yet, by topic.',
      labelNames: ['topic'],
      registers,
    }),
  };
}
