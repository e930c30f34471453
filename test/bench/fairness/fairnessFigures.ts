/** Defines the results of the fairness benchmark and computes medians. Pure. */
import { median, type RunFacts } from '../path/pathFigures.ts';
import type { OpenFigures } from '../path/pathLoad.ts';

export interface FairnessResult {
  readonly run: RunFacts;
  readonly rows: readonly FairnessRow[];
  readonly overload: OverloadFigures;
  readonly limiter: readonly LimiterFigures[];
}

export interface FairnessRow {
  /** Load of the other tenant. */
  readonly beside: string;
  readonly victim: string;
  /** One entry per run. */
  readonly rounds: readonly Round[];
}

export interface Round {
  readonly alone: Loaded;
  /** The victim while the other tenant loads another ingest: the tenants share cores, Kafka, and ClickHouse, but no ingest. */
  readonly elsewhere: readonly [Loaded, Loaded];
  readonly beside: Loaded;
}

/** Figures of the victim under one load of the other tenant. */
export interface Loaded {
  readonly figures: OpenFigures;
  /** Responses to the other tenant, by status. */
  readonly answers: Answers;
}

/** Number of responses by status; 0 stands for a broken connection. */
export type Answers = Readonly<Record<string, number>>;

export interface OverloadFigures {
  /** Requests per second of one tenant at full speed, and the due rate, `TEN_TIMES` as high. */
  readonly requestsPerSecond: number;
  readonly duePerSecond: number;
  readonly connections: number;
  readonly answers: Answers;
  /** Rejections with 503 and without `Retry-After`. */
  readonly withoutRetryAfter: number;
  /** Responses to the requests that another tenant sent during the overload; 0 also stands for timed-out requests. */
  readonly others: Answers;
  /** Latency of those requests. */
  readonly othersMs: { readonly p50: number; readonly p99: number };
  readonly rssBytes: { readonly before: number; readonly highest: number; readonly after5s: number };
  /** Time from the end of the overload to the other tenant's first 201. Null if no such event was stored within the time limit. */
  readonly firstGoodMs: number | null;
  /** Latency of the other tenant before the overload and from 5 s after it. */
  readonly p99Ms: { readonly before: number; readonly after: number };
}

export interface LimiterFigures {
  readonly ingests: number;
  /** Limit in events per second. */
  readonly limitPerSecond: number;
  readonly duePerSecond: number;
  /** Ratio of passed events to the events that rate and burst allow, from the first request, minus 1. */
  readonly firstError: number;
  readonly firstSeconds: number;
  /** Ratio of later passed events to the rate, minus 1. */
  readonly settledError: number;
}

/** Maximum difference of the two p99 values elsewhere. A larger difference makes the row inconclusive. */
export const MAX_NOISE = 0.5;
/** Maximum time for recovery after an overload. */
export const WELL_AFTER_MS = 5_000;
/** Maximum error of a limit after the ingests know each other. */
export const MAX_LIMIT_ERROR = 0.1;

/** Medians over the rounds, in milliseconds. */
export interface Medians {
  readonly alone: Latency;
  /** Median of the mean of each round's two loads. */
  readonly elsewhere: Latency;
  readonly beside: Latency;
  /** p99 with the other tenant at the same ingest relative to p99 elsewhere: the cost of sharing an ingest. */
  readonly toElsewhere: number;
  readonly isConclusive: boolean;
}

export type Latency = Pick<OpenFigures, 'p50Ms' | 'p99Ms'>;

export function mediansOf({ rounds }: Pick<FairnessRow, 'rounds'>): Medians {
  const alone = latencyOf(rounds.map((round) => round.alone));
  const beside = latencyOf(rounds.map((round) => round.beside));
  const [first, again] = [
    latencyOf(rounds.map((round) => round.elsewhere[0])),
    latencyOf(rounds.map((round) => round.elsewhere[1])),
  ];
  const mean = (name: keyof Latency) =>
    median(rounds.map(({ elsewhere: [one, other] }) => (one.figures[name] + other.figures[name]) / 2));
  const elsewhere = { p50Ms: mean('p50Ms'), p99Ms: mean('p99Ms') };
  const noise = Math.abs(first.p99Ms - again.p99Ms) / Math.min(first.p99Ms, again.p99Ms);
  return {
    ...{ alone, elsewhere, beside, isConclusive: noise <= MAX_NOISE },
    toElsewhere: beside.p99Ms / elsewhere.p99Ms,
  };
}

function latencyOf(loads: readonly Loaded[]): Latency {
  const of = (name: keyof Latency) => median(loads.map(({ figures }) => figures[name]));
  return { p50Ms: of('p50Ms'), p99Ms: of('p99Ms') };
}

/** Returns the number of the victim's requests that did not get the expected response. */
export function lostOf({ rounds }: Pick<FairnessRow, 'rounds'>): number {
  return rounds.reduce((sum, { beside: { figures } }) => sum + figures.refused + figures.timedOut, 0);
}
