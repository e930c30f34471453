/** Computes the cost of traces from slices of load with different shares of sampled requests. */
import { seeded } from '../../faults/seeded.ts';
import { mean, percentile } from '../path/pathFigures.ts';

/** Shares of sampled requests, one slice each. */
export const SHARES = [0, 0.01, 0.1, 1] as const;

export type Share = (typeof SHARES)[number];

/** CPU microseconds per request in each slice. The slices follow each other in the same process. */
export type Round = Readonly<Record<Share, number>>;

/** Estimate with the limits of its 95 % confidence interval. */
export interface Estimate {
  readonly value: number;
  readonly low: number;
  readonly high: number;
}

export interface TracesCost {
  /** CPU microseconds of a request that is not sampled. */
  readonly plainMicros: number;
  /** CPU time if 1 % of the requests are sampled, divided by the CPU time if no request is sampled. */
  readonly ratioAtOne: Estimate;
  /** Additional CPU microseconds of a sampled request: the slope of a line through the slices of a round. */
  readonly sampledMicros: Estimate;
}

export function tracesCost(rounds: readonly Round[]): TracesCost {
  const estimate = (of: (round: Round) => number) => estimated(rounds.map(of));
  return {
    plainMicros: mean(rounds.map((round) => round[0])),
    ratioAtOne: estimate((round) => round[0.01] / round[0]),
    sampledMicros: estimate(slopeOf),
  };
}

/** Returns the slope of the least-squares line through the slice without sampled requests. */
function slopeOf(round: Round): number {
  const sum = (of: (share: Share) => number) => SHARES.map(of).reduce((total, value) => total + value, 0);
  return sum((share) => share * (round[share] - round[0])) / sum((share) => share ** 2);
}

const RESAMPLES = 10_000;

/** Returns the mean with its bootstrap interval. */
function estimated(values: readonly number[]): Estimate {
  const random = seeded(1);
  const resample = () => mean(values.map(() => values[random.between(0, values.length - 1)] ?? Number.NaN));
  const means = Array.from({ length: RESAMPLES }, resample).sort((a, b) => a - b);
  return { value: mean(values), low: percentile(means, 0.025), high: percentile(means, 0.975) };
}
