/** Reports the lag of all consumer groups, because a projector that is down cannot report its own lag. */
import { type GroupLag, groupLags } from '@questlog/runtime/consumer/groupLag';
import { StallDetector } from '@questlog/runtime/consumer/progress';
import { runPeriodically } from '@questlog/runtime/process/waiting';
import type { ConsumerLag } from '@questlog/schemas/http/health';
import { GROUPS } from '@questlog/schemas/topics/topics';
import type { OperationsContext } from './context.ts';
import type { OperationsMetrics } from './metrics.ts';

const INTERVAL_MS = 10_000;
/** Maximum lag of a consumer group without a warning, as a share of the retention time. The web console uses the same value. */
const NEAR_LOSS_RATIO = 0.1;
const HOUR_MS = 60 * 60 * 1000;

type LagContext = Pick<OperationsContext, 'log' | 'clock' | 'health' | 'metrics'>;

/** Measures the lag periodically. Returns a function that stops the measurements. */
export function watchLag(context: LagContext, everyMs = INTERVAL_MS): () => Promise<void> {
  const stops = groupLags(context, false).map((group) =>
    runPeriodically(watchGroup(context, group), { everyMs }, () => {
      // After a failed measurement, the metrics keep their previous values.
    }),
  );
  return async () => void (await Promise.all(stops.map((stop) => stop())));
}

function watchGroup({ clock, health, metrics }: LagContext, of: GroupLag): () => Promise<void> {
  const { group, topic } = of;
  const standstill = new StallDetector(group, topic);
  let warning: string | undefined;
  let worstMs = 0;
  // Gives the warning the same name as the readiness check of the linker or projector.
  health.warn(group === GROUPS.link ? `${group} ${topic}` : group, () => warning);
  return async () => {
    const nowMs = clock.now();
    const lag = await of.measure(nowMs);
    setMetrics(metrics, lag, nowMs);
    worstMs = Math.max(worstMs, lag.lagMs ?? 0);
    warning = standstill.check(lag.partitions, nowMs) ?? nearLoss(lag) ?? retentionTooShort(lag, worstMs);
  };
}

function setMetrics(metrics: OperationsMetrics, lag: ConsumerLag, nowMs: number): void {
  const { group, topic, lagRecords, lagMs, shareOfRetention } = lag;
  const of = { group, topic };
  metrics.groupLagRecords.set(of, lagRecords);
  metrics.groupLagTime.set(of, nowMs / 1000);
  if (lagMs === null || shareOfRetention === null) {
    metrics.groupLagSeconds.remove(of);
    metrics.groupLagRatio.remove(of);
    return;
  }
  metrics.groupLagSeconds.set(of, lagMs / 1000);
  metrics.groupLagRatio.set(of, shareOfRetention);
}

/** Warns if the lag is a large share of the retention time, because records can expire before they are read. */
function nearLoss({ group, topic, lagMs, shareOfRetention }: ConsumerLag): string | undefined {
  if (lagMs === null || shareOfRetention === null || shareOfRetention <= NEAR_LOSS_RATIO) return undefined;
  const share = Math.round(100 * shareOfRetention);
  return `${group} is ${Math.round(lagMs / HOUR_MS)} h behind on ${topic}, which is ${share} % of the retention time of the topic`;
}

/**
 * Warns if the retention time is less than twice the largest lag so far, because the next lag can be larger than all earlier
 * lags.
 */
function retentionTooShort({ group, topic, retentionMs }: ConsumerLag, worstMs: number): string | undefined {
  if (retentionMs === null || retentionMs >= 2 * worstMs) return undefined;
  const [worst, kept] = [worstMs, retentionMs].map((ms) => `${Math.round(ms / HOUR_MS)} h`);
  return `${group} was up to ${worst} behind on ${topic} since this ingest started. The log keeps records for only ${kept}, which is less than twice that lag`;
}
