/** Tells an operator of partitions that take no appends or give no records while others do. */
import { Gauge } from 'prom-client';
import type { Health } from '../process/health.ts';
import type { MetricsRegistry } from '../process/metrics.ts';
import type { Log } from './log.ts';

type SickLog = Pick<Log, 'sickPartitions'>;

/** Named one by one; of more than these only the number is told. */
const MAX_NAMED = 5;

/** Whoever appends stays ready. Of a consumer, whose lag is unknown then, `progress.ts` decides. */
export function warnOfSickPartitions(log: SickLog, health: Health): void {
  health.warn('partitions', () => {
    const sick = log.sickPartitions?.() ?? [];
    if (sick.length === 0) return undefined;
    const named = sick.slice(0, MAX_NAMED).map(({ doing, topic, partition, forMs, cause }) => {
      const what = doing === 'append' ? 'takes no appends' : 'gives no records';
      return `${topic}/${partition} ${what} for ${Math.round(forMs / 1000)} s: ${cause}`;
    });
    const more = sick.length - named.length;
    return [...named, ...(more > 0 ? [`and ${more} more`] : [])].join('; ');
  });
}

export function sicknessMetrics(registry: MetricsRegistry, log: SickLog = {}) {
  return {
    outage: new Gauge({
      name: 'questlog_log_partition_outage_seconds',
      help: 'For so long a partition of Kafka has taken no appends (`append`) or given no records (`read`); only those that are sick now. The others are not held up.',
      labelNames: ['topic', 'partition', 'doing'],
      registers: [registry],
      collect() {
        this.reset();
        for (const { topic, partition, doing, forMs } of log.sickPartitions?.() ?? []) {
          this.set({ topic, partition, doing }, forMs / 1000);
        }
      },
    }),
  };
}
