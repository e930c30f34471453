/** Computes the cost of traces from slices of load with different shares of sampled requests. */
import { seeded } from '../../faults/seeded.ts';
import { median, percentile } from '../path/pathFigures.ts';

/** Shares of sampled requests, one slice each. */
export const SHARES = [0, 0.01, 0.1] as const;

/** CPU microseconds per request in slices that follow each other in the same process. */
export type Round = Readonly<Record<(typeof SHARES)[number], number>>;

/** CPU time relative to the slice without sampled requests, with the limits of the 95 % confidence interval. */
export interface Ratio {
  readonly value: number;
  readonly low: number;
  readonly high: number;
}

export interface TracesCost {
  /** CPU microseconds of a request that is not sampled. */
  readonly plainMicros: number;
  readonly atOnePercent: Ratio;
  readonly atTenPercent: Ratio;
}

export function tracesCost(rounds: readonly Round[]): TracesCost {
  const ratioAt = (share: 0.01 | 0.1) => ratioOf(rounds.map((round) => round[share] / round[0]));
  return {
    plainMicros: median(rounds.map((round) => round[0])),
    atOnePercent: ratioAt(0.01),
    atTenPercent: ratioAt(0.1),
  };
}

const RESAMPLES = 10_000;

/** Returns the median, because a disturbance by another program can change a few ratios by a factor. */
function ratioOf(ratios: readonly number[]): Ratio {
  const random = seeded(1);
  const drawn = () => ratios[random.between(0, ratios.length - 1)] ?? Number.NaN;
  const medians = Array.from({ length: RESAMPLES }, () => median(ratios.map(drawn))).sort((a, b) => a - b);
  return { value: median(ratios), low: percentile(medians, 0.025), high: percentile(medians, 0.975) };
}
