/** The result of the bench of fairness as Markdown: for the terminal, and as a part of `docs/evidence/performance.md`. */
import { existsSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { median } from '../path/pathFigures.ts';
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

/** Blocks of the page. */
export function fairnessSection(): string[] {
  const path = fileURLToPath(new URL(`../../../${RESULT}`, import.meta.url));
  const result: FairnessResult | undefined = existsSync(path)
    ? JSON.parse(readFileSync(path, 'utf8'))
    : undefined;
  return [
    '## Fairness',
    `<!-- Generated from ${RESULT}. To make it anew, run: npm run bench:fairness -- --json ${RESULT} && npm run docs:reference -->`,
    `\`npm run bench:fairness\` measures one tenant alone, with another that takes too much at another ingest of the deployment, at its
own, and at the other again. The tenant sends ${VICTIM.writesPerSecond} requests a second of ${VICTIM.events} events, or asks ${VICTIM.readsPerSecond} times a second for a page of
${VICTIM.page}; latencies count from the instant at which a request was due. The ingests, the projector, ClickHouse, Kafka and both senders
share one machine's cores, so that p99 beside over p99 alone is in part the wait for a core. What sharing an ingest costs is p99 beside
over p99 with the same load elsewhere: of this at most ${MAX_RATIO} is allowed, and \`--check\` fails where it is more. Where the loads elsewhere,
before and behind, differ by more than ${percent(MAX_NOISE)}, the machine was too busy, and the row is "inconclusive". At overload \`--check\` asks for
refusals with 503, for at most ${mebibytes(MAX_RSS_BYTES)} MiB of memory, and for the p99 of before ${seconds(WELL_AFTER_MS)} after its end.
\`--seconds 2 --runs 1\` shortens a run, which takes half an hour.`,
    ...(result === undefined ? ['It has not been run yet.'] : [fairnessReport(result)]),
  ];
}

export function fairnessReport({ run, rows, overload, limiter }: FairnessResult): string {
  return [
    factsLine(run),
    table(
      [
        ...['the tenant', 'and another that sends', 'alone, p50 / p99, ms', 'elsewhere', 'beside'],
        ...[
          'p99 beside, to alone',
          'to elsewhere',
          'cores busy, alone / elsewhere / beside',
          'its ingest’s cores',
        ],
        'what the other was answered beside',
      ],
      rows.map(rowCells),
    ),
    '0 stands for a connection that broke. Of several runs the medians are told, and of the answers those of the last.',
    ...('absent' in overload ? [`Overload: not measured: ${overload.absent}.`] : overloadBlocks(overload)),
    ...('absent' in limiter ? [`The limiter: not measured: ${limiter.absent}.`] : limiterBlocks(limiter)),
  ].join('\n\n');
}

function rowCells(row: FairnessRow): string[] {
  const { rounds, victim, beside: sends, absent = '' } = row;
  const medians = mediansOf(row);
  if (medians === undefined) return [victim, sends, ...Array(7).fill('–'), absent];
  const { alone, elsewhere, beside, toAlone, toElsewhere, isConclusive } = medians;
  const lost = lostOf(row);
  const loads = (of: 'busy' | 'ingestCores'): number[] =>
    [
      rounds.map((round) => round.alone),
      rounds.flatMap((round) => round.elsewhere),
      rounds.map((round) => round.beside),
    ].map((loaded) => median(loaded.map((one) => one[of])));
  return [
    victim,
    sends,
    ...[alone, elsewhere, beside].map(({ p50Ms, p99Ms }: Latency) => `${millis(p50Ms)} / ${millis(p99Ms)}`),
    toAlone.toFixed(2),
    `${isConclusive ? toElsewhere.toFixed(2) : 'inconclusive'}${lost > 0 ? `; ${lost} lost` : ''}`,
    loads('busy').map(percent).join(' / '),
    loads('ingestCores')
      .map((cores) => cores.toFixed(2))
      .join(' / '),
    listed(rounds.at(-1)?.beside.answers ?? {}),
  ];
}

function overloadBlocks(of: OverloadFigures): string[] {
  const { before, highest, after5s } = of.rssBytes;
  const good =
    of.firstGoodMs === null
      ? `none within ${seconds(OVERLOAD.givenUpAfterMs)}`
      : `${Math.round(of.firstGoodMs)} ms after its end`;
  return [
    '### At ten times what it takes',
    `At full speed one ingest answered one tenant ${grouped(of.requestsPerSecond)} requests of ${OVERLOAD.events} events a second. Then
${grouped(of.duePerSecond)} a second were due on ${of.connections} connections, of which those that had none waited at the sender.`,
    table(
      ['what', 'figure'],
      [
        [
          `RSS of the ingest: before, highest, ${seconds(WELL_AFTER_MS)} after, MiB`,
          [before, highest, after5s].map(mebibytes).join(', '),
        ],
        ['what the tenant was answered', listed(of.answers)],
        ['503 without `Retry-After`', `${of.withoutRetryAfter}`],
        [
          `what another tenant was answered meanwhile, ${1000 / OVERLOAD.probedEachMs} requests a second, each given up (0) after ${seconds(OVERLOAD.givenUpAfterMs)}`,
          listed(of.others),
        ],
        ['how long that took, p50 / p99, ms', `${millis(of.othersMs.p50)} / ${millis(of.othersMs.p99)}`],
        ['its first 201', good],
        [
          `its p99 before, and from ${seconds(WELL_AFTER_MS)} after on, ms`,
          `${millis(of.p99Ms.before)}, ${millis(of.p99Ms.after)}`,
        ],
      ],
    ),
  ];
}

function limiterBlocks(limiter: readonly LimiterFigures[]): string[] {
  const [{ limitPerSecond = 0, duePerSecond = 0, firstSeconds = 0 } = {}] = limiter;
  return [
    '### The limiter with several ingests',
    `A tenant with a limit of ${grouped(limitPerSecond)} events a second and a burst of ${seconds(BURST_S * 1000)} sends ${grouped(duePerSecond)}, spread evenly. How much
more or less than its limit passes, of which \`--check\` allows ${percent(MAX_LIMIT_ERROR)} in the last column:`,
    table(
      ['ingests', `the first ${firstSeconds} s, of the rate and its burst`, 'from then on, of the rate'],
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
  return all.length === 0 ? 'nothing' : all.join(', ');
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
