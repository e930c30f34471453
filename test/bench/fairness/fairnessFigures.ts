/** What a run of the bench of fairness leaves, as it is written to JSON, and what is said of it. Pure. */
import type { NotMeasured, RunFacts } from '../path/pathFigures.ts';
import type { OpenFigures } from '../path/pathLoad.ts';
import { mebibytes } from '../path/pathReport.ts';

export interface FairnessResult {
  readonly run: RunFacts;
  readonly rows: readonly PairRow[];
  readonly overload: OverloadFigures | NotMeasured;
  readonly limiter: readonly LimiterFigures[] | NotMeasured;
}

export interface PairRow {
  /** What the other tenant does. */
  readonly beside: string;
  readonly victim: string;
  /** One a run; fewer where one of them broke. */
  readonly pairs: readonly Pair[];
  /** Why one broke. */
  readonly absent?: string;
}

/** The victim alone, beside the other tenant, and alone again. */
export interface Pair {
  readonly alone: readonly [OpenFigures, OpenFigures];
  readonly beside: OpenFigures;
  /** The share of all cores that anybody used, alone at first and beside. */
  readonly busy: readonly [number, number];
  /** Cores that the ingest used, alone at first and beside. */
  readonly ingestCores: readonly [number, number];
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
/** Two loads of the victim alone may differ by so much at p99, or nothing is said of the one between them. */
export const MAX_NOISE = 0.5;
/** What `docker-compose.yml` gives an ingest. */
export const MAX_RSS_BYTES = 1024 ** 3;
/** The ingest is to be well again so soon after an overload. */
export const WELL_AFTER_MS = 5_000;
/** What passes once the ingests know each other may be so far from the rate. */
export const MAX_LIMIT_ERROR = 0.1;

export function ratioOf({ alone: [one, other], beside }: Pair): number {
  return beside.p99Ms / ((one.p99Ms + other.p99Ms) / 2);
}

export function noiseOf({ alone: [one, other] }: Pair): number {
  return Math.abs(one.p99Ms - other.p99Ms) / Math.min(one.p99Ms, other.p99Ms);
}

/** The pair with the median ratio, of those that say something; of an even count the worse one. */
export function conclusive({ pairs }: PairRow): Pair | undefined {
  const told = pairs.filter((pair) => noiseOf(pair) <= MAX_NOISE);
  return told.sort((a, b) => ratioOf(a) - ratioOf(b))[Math.floor(told.length / 2)];
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
    const [name, pair] = [`${row.victim} beside ${row.beside}`, conclusive(row)];
    const lost = row.pairs.reduce((sum, { beside }) => sum + beside.refused + beside.timedOut, 0);
    if (lost > 0) failures.push(`${name}: ${lost} requests of the victim were refused or timed out`);
    if (pair === undefined) notJudged.push(`${name}: ${row.absent ?? 'inconclusive'}`);
    else if (ratioOf(pair) > MAX_RATIO) failures.push(`${name}: ${ratioOf(pair).toFixed(2)} times alone`);
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
