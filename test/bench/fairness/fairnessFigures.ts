/** What a run of the bench of fairness leaves, as it is written to JSON, and what is said of it. Pure. */
import { median, type NotMeasured, type RunFacts } from '../path/pathFigures.ts';
import type { OpenFigures } from '../path/pathLoad.ts';
import { mebibytes } from '../path/pathReport.ts';

export interface FairnessResult {
  readonly run: RunFacts;
  readonly rows: readonly FairnessRow[];
  readonly overload: OverloadFigures | NotMeasured;
  readonly limiter: readonly LimiterFigures[] | NotMeasured;
}

export interface FairnessRow {
  /** What the other tenant does. */
  readonly beside: string;
  readonly victim: string;
  /** One a run; fewer where one of them broke. */
  readonly rounds: readonly Round[];
  /** Why one broke. */
  readonly absent?: string;
}

export interface Round {
  readonly alone: Loaded;
  /** The other tenant takes the same cores, Kafka and ClickHouse, and nothing of the ingest that is measured. */
  readonly elsewhere: readonly [Loaded, Loaded];
  readonly beside: Loaded;
}

/** The victim under one load of the other tenant. */
export interface Loaded {
  readonly figures: OpenFigures;
  /** The share of all cores that anybody used. */
  readonly busy: number;
  /** Cores that the victim's ingest used. */
  readonly ingestCores: number;
  /** What the other tenant was answered, by status. */
  readonly answers: Answers;
}

/** How often each; 0 stands for a connection that broke. */
export type Answers = Readonly<Record<string, number>>;

export interface OverloadFigures {
  /** What one tenant was answered at full speed, and what was due then, `TEN_TIMES` as many. */
  readonly requestsPerSecond: number;
  readonly duePerSecond: number;
  readonly connections: number;
  readonly answers: Answers;
  /** Refusals with 503 that had no `Retry-After`. */
  readonly withoutRetryAfter: number;
  /** Of another tenant, to what it sent meanwhile, however late; 0 stands for what was given up, too. */
  readonly others: Answers;
  /** How long it waited for those. */
  readonly othersMs: { readonly p50: number; readonly p99: number };
  readonly rssBytes: { readonly before: number; readonly highest: number; readonly after5s: number };
  /** From the end of the overload to the other tenant's first 201; null: none within the time. */
  readonly firstGoodMs: number | null;
  /** The other tenant, before and from 5 s after the overload on. */
  readonly p99Ms: { readonly before: number; readonly after: number };
}

export interface LimiterFigures {
  readonly ingests: number;
  /** Events. */
  readonly limitPerSecond: number;
  readonly duePerSecond: number;
  /** What passed from the first request on, over what the rate and its burst let pass in that time, less 1. */
  readonly firstError: number;
  readonly firstSeconds: number;
  /** What passed afterwards, over the rate, less 1. */
  readonly settledError: number;
}

export const MAX_RATIO = 2;
/** The loads elsewhere, before and behind the one beside, may differ by so much at p99, or nothing is said of that. */
export const MAX_NOISE = 0.5;
/** What `docker-compose.yml` gives an ingest. */
export const MAX_RSS_BYTES = 1024 ** 3;
/** The ingest is to be well again so soon after an overload. */
export const WELL_AFTER_MS = 5_000;
/** What passes once the ingests know each other may be so far from the rate. */
export const MAX_LIMIT_ERROR = 0.1;

/** Medians over the rounds, in milliseconds. */
export interface Medians {
  readonly alone: Latency;
  /** Of the means of each round's two loads. */
  readonly elsewhere: Latency;
  readonly beside: Latency;
  /** p99 beside over p99 alone: on a machine that all share, a part of it is the wait for a core. */
  readonly toAlone: number;
  /** p99 beside over p99 elsewhere: what sharing an ingest costs. */
  readonly toElsewhere: number;
  readonly isConclusive: boolean;
}

export type Latency = Pick<OpenFigures, 'p50Ms' | 'p99Ms'>;

/** @returns undefined of no round. */
export function mediansOf({ rounds }: Pick<FairnessRow, 'rounds'>): Medians | undefined {
  if (rounds.length === 0) return undefined;
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
    toAlone: beside.p99Ms / alone.p99Ms,
    toElsewhere: beside.p99Ms / elsewhere.p99Ms,
  };
}

function latencyOf(loads: readonly Loaded[]): Latency {
  const of = (name: keyof Latency) => median(loads.map(({ figures }) => figures[name]));
  return { p50Ms: of('p50Ms'), p99Ms: of('p99Ms') };
}

export interface Judged {
  readonly failures: readonly string[];
  readonly notJudged: readonly string[];
}

/** What `--check` finds. */
export function judge({ rows, overload, limiter }: FairnessResult): Judged {
  const failures: string[] = [];
  const notJudged: string[] = [];
  for (const row of rows) {
    const [name, medians] = [`${row.victim} beside ${row.beside}`, mediansOf(row)];
    const lost = lostOf(row);
    if (lost > 0) failures.push(`${name}: ${lost} requests of the victim were refused or timed out`);
    if (medians?.isConclusive !== true) notJudged.push(`${name}: ${row.absent ?? 'inconclusive'}`);
    else if (medians.toElsewhere > MAX_RATIO)
      failures.push(`${name}: ${medians.toElsewhere.toFixed(2)} times elsewhere`);
  }
  if ('absent' in limiter) notJudged.push(`the limiter: ${limiter.absent}`);
  else {
    for (const { ingests, settledError } of limiter) {
      if (Math.abs(settledError) <= MAX_LIMIT_ERROR) continue;
      failures.push(`limiter of ${ingests} ingests: ${(settledError * 100).toFixed(1)} % from its rate`);
    }
  }
  if ('absent' in overload) notJudged.push(`the overload: ${overload.absent}`);
  else {
    const { answers, withoutRetryAfter, rssBytes, firstGoodMs, p99Ms } = overload;
    if (rssBytes.highest > MAX_RSS_BYTES)
      failures.push(`overload: ${mebibytes(rssBytes.highest)} MiB, of ${mebibytes(MAX_RSS_BYTES)}`);
    if ((answers['503'] ?? 0) === 0) failures.push('overload: no 503: it was none, or all of it was held');
    if (withoutRetryAfter > 0) failures.push(`overload: ${withoutRetryAfter} times 503 without Retry-After`);
    if (firstGoodMs === null || firstGoodMs > WELL_AFTER_MS) {
      failures.push(`overload: no good answer within ${WELL_AFTER_MS} ms of its end`);
    }
    const ratio = p99Ms.after / p99Ms.before;
    if (!(ratio <= MAX_RATIO))
      failures.push(`overload: ${ratio.toFixed(2)} times the p99 ${WELL_AFTER_MS} ms after its end`);
  }
  return { failures, notJudged };
}

/** The victim's requests beside the other tenant that were not answered as they should be. */
export function lostOf({ rounds }: Pick<FairnessRow, 'rounds'>): number {
  return rounds.reduce((sum, { beside: { figures } }) => sum + figures.refused + figures.timedOut, 0);
}
