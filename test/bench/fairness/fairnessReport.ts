/** Formats the results of the fairness benchmark as Markdown, for the terminal and for `docs/evidence/performance.md`. */
import { existsSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { factsLine, grouped, mebibytes, millis, table } from '../path/pathReport.ts';
import {
  type Answers,
  type FairnessResult,
  type FairnessRow,
  type Latency,
  type LimiterFigures,
  lostOf,
  MAX_LIMIT_ERROR,
  MAX_NOISE,
  MAX_RATIO,
  MAX_RSS_BYTES,
  mediansOf,
  type OverloadFigures,
  WELL_AFTER_MS,
} from './fairnessFigures.ts';
import { BURST_S } from './measureLimiter.ts';
import { OVERLOAD } from './measureOverload.ts';
import { VICTIM } from './measureRounds.ts';

const RESULT = 'docs/evidence/fairness.json';

/** Returns the blocks of the page. */
export function fairnessSection(): string[] {
  const path = fileURLToPath(new URL(`../../../${RESULT}`, import.meta.url));
  const result: FairnessResult | undefined = existsSync(path)
    ? JSON.parse(readFileSync(path, 'utf8'))
    : undefined;
  return [
    '## Fairness',
    `\`npm run bench:fairness -- --json ${RESULT}\`: a tenant alone, then while another tenant overloads another ingest of the deployment,
and the same ingest. The tenant sends ${VICTIM.writesPerSecond} requests of ${VICTIM.events} events per second, or reads ${VICTIM.readsPerSecond} pages of ${VICTIM.page}. All processes share one machine, so the ratio
is p99 with the load on the same ingest to p99 with the load elsewhere. \`--check\` fails if a ratio exceeds ${MAX_RATIO}. A row is inconclusive if the loads
elsewhere differ by more than ${percent(MAX_NOISE)}. At overload, \`--check\` requires 503 answers, at most ${mebibytes(MAX_RSS_BYTES)} MiB of memory, and normal latency ${seconds(WELL_AFTER_MS)} later.
A run takes half an hour; \`--seconds 2 --runs 1\` shortens it.`,
    ...(result === undefined ? ['It has not been measured yet.'] : [fairnessReport(result)]),
  ];
}

export function fairnessReport({ run, rows, overload, limiter }: FairnessResult): string {
  return [
    factsLine(run),
    table(
      ['tenant', 'load of the other tenant', 'alone, p50/p99, ms', 'elsewhere', 'same ingest', 'ratio'],
      rows.map(rowCells),
    ),
    ...('absent' in overload ? [`Overload: not measured: ${overload.absent}.`] : overloadBlocks(overload)),
    ...('absent' in limiter ? [`Rate limiter: not measured: ${limiter.absent}.`] : limiterBlocks(limiter)),
  ].join('\n\n');
}

function rowCells(row: FairnessRow): string[] {
  const { victim, beside: sends, absent = '' } = row;
  const medians = mediansOf(row);
  if (medians === undefined) return [victim, sends, ...Array(3).fill('–'), absent];
  const { alone, elsewhere, beside, toElsewhere, isConclusive } = medians;
  const lost = lostOf(row);
  return [
    victim,
    sends,
    ...[alone, elsewhere, beside].map(({ p50Ms, p99Ms }: Latency) => `${millis(p50Ms)}/${millis(p99Ms)}`),
    `${isConclusive ? toElsewhere.toFixed(2) : 'inconclusive'}${lost > 0 ? `; ${lost} lost` : ''}`,
  ];
}

function overloadBlocks(of: OverloadFigures): string[] {
  const { before, highest, after5s } = of.rssBytes;
  const recovered =
    of.firstGoodMs === null
      ? `no 201 within ${seconds(OVERLOAD.givenUpAfterMs)}`
      : `the first 201 ${Math.round(of.firstGoodMs)} ms after the end`;
  return [
    '### Overload at ten times the capacity',
    `One ingest answered ${grouped(of.requestsPerSecond)} requests of ${OVERLOAD.events} events per second. Then ${grouped(of.duePerSecond)} per second were sent on ${of.connections} connections.`,
    `The tenant was answered ${listed(of.answers)} (503 without \`Retry-After\`: ${of.withoutRetryAfter}). Another tenant was answered ${listed(of.others)} (0: no answer within
${seconds(OVERLOAD.givenUpAfterMs)}), p50/p99 ${millis(of.othersMs.p50)}/${millis(of.othersMs.p99)} ms. Afterwards: ${recovered}, p99 ${millis(of.p99Ms.after)} ms (before: ${millis(of.p99Ms.before)}). Memory before, at the peak, and
${seconds(WELL_AFTER_MS)} after: ${[before, highest, after5s].map(mebibytes).join(', ')} MiB.`,
  ];
}

function limiterBlocks(limiter: readonly LimiterFigures[]): string[] {
  const [{ limitPerSecond = 0, duePerSecond = 0, firstSeconds = 0 } = {}] = limiter;
  return [
    '### Rate limits with several ingests',
    `A tenant with a limit of ${grouped(limitPerSecond)} events per second and a burst of ${seconds(BURST_S * 1000)} sends ${grouped(duePerSecond)}, spread evenly. The
table shows the deviation from the limit; \`--check\` allows ${percent(MAX_LIMIT_ERROR)} in the last column.`,
    table(
      ['ingests', `first ${firstSeconds} s, with the burst`, 'later'],
      limiter.map(({ ingests, firstError, settledError }) => [
        `${ingests}`,
        signed(firstError),
        signed(settledError),
      ]),
    ),
  ];
}

function listed(answers: Answers): string {
  const all = Object.entries(answers).map(([status, count]) => `${status}: ${grouped(count)}`);
  return all.length === 0 ? 'none' : all.join(', ');
}

function seconds(millis: number): string {
  return `${millis / 1000} s`;
}

function percent(share: number): string {
  return `${Math.round(share * 100)} %`;
}

function signed(share: number): string {
  return `${share > 0 ? '+' : ''}${(share * 100).toFixed(1)} %`;
}
