/** Defines the Prometheus metrics of ingest: name, type, unit, and meaning. */
import { type HttpMetrics, httpMetrics } from '@questlog/runtime/http/metrics';
import {
  type BoundedResources,
  keepDeprecatedName,
  type MetricsRegistry,
  resourceMetrics,
} from '@questlog/runtime/process/metrics';
import { Counter, Gauge } from 'prom-client';
import { MAX_TENANTS, TenantSeries } from './tenantSeries.ts';

export type IngestMetrics = ReturnType<typeof ingestMetrics>;

export function ingestMetrics(
  registry: MetricsRegistry,
  http: HttpMetrics = httpMetrics(registry),
  resources: BoundedResources = resourceMetrics(registry),
) {
  const registers = [registry];
  const gauge = (name: string, help: string) => new Gauge({ name, help, registers });
  const metrics = {
    ...http,
    resources,
    ...tenantMetrics(registers),
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
      help: 'Requests that were answered with the stored events of an earlier request.',
      registers,
    }),
    ...rejectionMetrics(registers),
    ledgerDropped: new Counter({
      name: 'questlog_ledger_dropped_changes_total',
      help: 'Dropped changes of the ledger, because ClickHouse was unavailable or a limit was reached.',
      registers,
    }),
    ...truncationMetrics(registers),
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
    metrics.logTruncations,
    {
      ...{ name: 'questlog_log_cuts_total', labelNames: ['topic'] },
      replacement: 'questlog_log_truncations_total',
    },
    registers,
  );
  keepDeprecatedName(
    metrics.bodyBytesInFlight,
    { name: 'questlog_body_bytes_in_flight', replacement: 'questlog_in_flight_body_bytes' },
    registers,
  );
  return metrics;
}

function tenantMetrics(registers: MetricsRegistry[]) {
  return {
    tenantAccepted: tenantCounter(registers, {
      name: 'questlog_tenant_events_accepted_total',
      help: `Events that the log confirmed, for the ${MAX_TENANTS} tenants with the most events, and for the rest (\`other\`). Updated every two seconds.`,
    }),
    tenantRateLimited: tenantCounter(registers, {
      name: 'questlog_tenant_rate_limited_total',
      help: `Like \`questlog_rate_limited_total\`, but for the ${MAX_TENANTS} tenants with the highest counts, and for the rest (\`other\`).`,
    }),
  };
}

function tenantCounter(registers: MetricsRegistry[], named: { name: string; help: string }): TenantSeries {
  const series = new TenantSeries();
  new Counter({
    ...{ ...named, labelNames: ['tenant'], registers },
    collect() {
      this.reset();
      for (const [tenant, count] of series.collect()) this.inc({ tenant }, count);
    },
  });
  return series;
}

function rejectionMetrics(registers: MetricsRegistry[]) {
  return {
    switched: new Counter({
      name: 'questlog_events_switched_total',
      help: 'Events by action of the switch: rejected, or accepted but outside the sample.',
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
      name: 'questlog_log_truncations_total',
      help: 'How often this process detected that the log had lost records.',
      labelNames: ['topic'],
      registers,
    }),
    appendedAgain: new Counter({
      name: 'questlog_records_appended_again_total',
      help: 'Records that a truncated log had lost and that this process appended again.',
      labelNames: ['topic'],
      registers,
    }),
    lostAppends: new Counter({
      name: 'questlog_log_lost_records_total',
      help: 'Acknowledged records of events that a truncated log lost before they were projected. The table `truncations` shows details.',
      labelNames: ['topic', 'partition'],
      registers,
    }),
  };
}
