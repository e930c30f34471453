/** Adds health warnings and metrics for log partitions that cannot be written or read. */
import { Gauge } from 'prom-client';
import type { Health } from '../process/health.ts';
import type { MetricsRegistry } from '../process/metrics.ts';
import type { Log } from './log.ts';

type MonitoredLog = Pick<Log, 'unavailablePartitions'>;

/** Maximum number of partitions in the health warning. Further partitions are only counted. */
const MAX_LISTED = 5;

/** Adds a health warning about unavailable partitions. The warning does not affect whether the process is ready. */
export function warnOfUnavailablePartitions(log: MonitoredLog, health: Health): void {
  health.warn('partitions', () => {
    const unavailable = log.unavailablePartitions?.() ?? [];
    if (unavailable.length === 0) return undefined;
    const listed = unavailable
      .slice(0, MAX_LISTED)
      .map(({ operation, topic, partition, outageMs, cause }) => {
        const what = operation === 'append' ? 'accepts no appends' : 'returns no records';
        return `${topic}/${partition} ${what} for ${Math.round(outageMs / 1000)} s: ${cause}`;
      });
    const unlistedCount = unavailable.length - listed.length;
    return [...listed, ...(unlistedCount > 0 ? [`and ${unlistedCount} more`] : [])].join('; ');
  });
}

export function partitionHealthMetrics(registry: MetricsRegistry, log: MonitoredLog = {}) {
  return {
    outage: new Gauge({
      name: 'questlog_log_partition_outage_seconds',
      help: 'Seconds for which a Kafka partition has accepted no appends (`append`) or returned no records (`read`). The metric is shown only during an outage of the partition.',
      labelNames: ['topic', 'partition', 'doing'],
      registers: [registry],
      collect() {
        this.reset();
        for (const { topic, partition, operation, outageMs } of log.unavailablePartitions?.() ?? []) {
          this.set({ topic, partition, doing: operation }, outageMs / 1000);
        }
      },
    }),
  };
}
