/** Tells an operator of partitions that take no appends or give no records while others do. */
import { Gauge } from 'prom-client';
import type { Health } from '../process/health.ts';
import type { MetricsRegistry } from '../process/metrics.ts';
import type { Log } from './log.ts';

type MonitoredLog = Pick<Log, 'unavailablePartitions'>;

/** Named one by one; of more than these only the number is told. */
const MAX_LISTED = 5;

/** Whoever appends stays ready. Of a consumer, whose lag is unknown then, `progress.ts` decides. */
export function warnOfUnavailablePartitions(log: MonitoredLog, health: Health): void {
  health.warn('partitions', () => {
    const unavailable = log.unavailablePartitions?.() ?? [];
    if (unavailable.length === 0) return undefined;
    const listed = unavailable
      .slice(0, MAX_LISTED)
      .map(({ operation, topic, partition, outageMs, cause }) => {
        const what = operation === 'append' ? 'takes no appends' : 'gives no records';
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
      help: 'For so long a partition of Kafka has taken no appends (`append`) or given no records (`read`); only those that are sick now. The others are not held up.',
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
