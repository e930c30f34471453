/** Formats the results of the fairness benchmark as Markdown, for the terminal and for `docs/evidence/fairness.md`. */

import { readFileSync } from 'node:fs';
import { list, table } from '../../tidy/reference/markdown.ts';
import { factsLine, grouped, mebibytes, millis, percent } from '../path/pathReport.ts';
import {
  type Answers,
  type FairnessResult,
  type FairnessRow,
  type Latency,
  type LimiterFigures,
  lostOf,
  MAX_LIMIT_ERROR,
  MAX_NOISE,
  mediansOf,
  type OverloadFigures,
  WELL_AFTER_MS,
} from './fairnessFigures.ts';
import { BURST_S } from './measureLimiter.ts';
import { OVERLOAD } from './measureOverload.ts';
import { VICTIM } from './measureRounds.ts';

export const FAIRNESS_PAGE = 'docs/evidence/fairness.md';
const RESULT = 'docs/evidence/fairness.json';

export function fairnessPage(): string {
  const result: FairnessResult = JSON.parse(
    readFileSync(new URL(`../../../${RESULT}`, import.meta.url), 'utf8'),
  );
  return `${[
    '# Fairness results',
    `<!-- Generated from ${RESULT}. To replace the results, run the command of this page, then: npm run docs:reference -->`,
    `\`npm run bench:fairness -- --json ${RESULT}\` measures the latency of a tenant while a second tenant sends too much. The first tenant sends ${VICTIM.writesPerSecond} requests per second with ${VICTIM.events} events each, or reads ${VICTIM.readsPerSecond} pages per
second with ${VICTIM.page} events each. The second tenant sends nothing ("alone"), or sends to another ingest process on the same machine ("elsewhere"), or to the same process
("same ingest"). The ratio is p99 of "same ingest", divided by p99 of "elsewhere". The ratio is inconclusive if two measurements of "elsewhere" differ by more than ${percent(MAX_NOISE, 0)}.`,
    fairnessReport(result),
  ].join('\n\n')}\n`;
}

export function fairnessReport({ run, rows, overload, limiter }: FairnessResult): string {
  return [
    factsLine(run),
    table(
      ['tenant', 'load of the other tenant', 'alone, p50/p99, ms', 'elsewhere', 'same ingest', 'ratio'],
      rows.map(rowCells),
    ),
    ...overloadBlocks(overload),
    ...limiterBlocks(limiter),
  ].join('\n\n');
}

function rowCells(row: FairnessRow): string[] {
  const { victim, beside: sends } = row;
  const { alone, elsewhere, beside, toElsewhere, isConclusive } = mediansOf(row);
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
      : `first 201 after ${Math.round(of.firstGoodMs)} ms`;
  return [
    '## Overload at ten times the capacity',
    `One ingest answered ${grouped(of.requestsPerSecond)} requests per second with ${OVERLOAD.events} events each. During the overload, ${of.connections} connections sent ${grouped(of.duePerSecond)} requests per second.`,
    list([
      `number of responses to the tenant with each status: ${listed(of.answers)}`,
      `503 without \`Retry-After\`: ${grouped(of.withoutRetryAfter)}`,
      `number of responses to another tenant with each status (0: no response within ${seconds(OVERLOAD.givenUpAfterMs)}): ${listed(of.others)}`,
      `p50/p99 of the other tenant: ${millis(of.othersMs.p50)}/${millis(of.othersMs.p99)} ms`,
      `recovery: ${recovered}`,
      `p99 before and after the overload: ${millis(of.p99Ms.before)} ms, ${millis(of.p99Ms.after)} ms`,
      `memory before the overload, at the peak during the overload, and ${seconds(WELL_AFTER_MS)} after the overload: ${[before, highest, after5s].map(mebibytes).join(', ')} MiB`,
    ]),
  ];
}

function limiterBlocks(limiter: readonly LimiterFigures[]): string[] {
  const [{ limitPerSecond = 0, duePerSecond = 0, firstSeconds = 0 } = {}] = limiter;
  return [
    '## Rate limits with several ingests',
    `A tenant with a limit of ${grouped(limitPerSecond)} events per second and a burst of ${seconds(BURST_S * 1000)} sends ${grouped(duePerSecond)} events per second, evenly to all ingests. The
table shows by how much the accepted events deviate from the limit. Target: after the burst, the accepted events deviate from the limit by at most ${percent(MAX_LIMIT_ERROR, 0)}.`,
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
  const all = Object.entries(answers).map(([status, count]) => `${status} (${grouped(count)})`);
  return all.length === 0 ? 'none' : all.join(', ');
}

function seconds(millis: number): string {
  return `${millis / 1000} s`;
}

function signed(share: number): string {
  return `${share > 0 ? '+' : ''}${percent(share, 1)}`;
}
