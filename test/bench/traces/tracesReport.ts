/** Formats the cost of traces as Markdown. */
import { seeded } from '../../faults/seeded.ts';
import { table } from '../../tidy/reference/markdown.ts';
import { percentile } from '../connections.ts';
import { machineLine, titleOf } from '../path/pathReport.ts';
import type { TracesResult, TracesRow } from './measureTraces.ts';

/** Maximum of the additional CPU time per event if 1 % of the requests are sampled. */
const MAX_COST = 0.03;
const RESAMPLES = 10_000;

export const TRACES_WORDS = `measures processes without traces, and processes that export the traces of 0 % and 10 % of the requests to a Collector. Each cell is the mean CPU time per event, divided by the mean without traces, with the 95 % confidence interval of this ratio (bootstrap). The column "1 %" is interpolated.`;

export function tracesReport({ run, rows }: TracesResult): string {
  const costs = rows.map(costsOf);
  const highest = Math.max(...costs.map(([, one]) => one?.high ?? Number.NaN)) - 1;
  return [
    `${machineLine(run)}, Kafka ${run.kafka}. ${run.runs} processes for each share.`,
    table(
      ['events × connections', '0 % sampled', '1 % sampled', '10 % sampled'],
      rows.map((row, i) => [titleOf(row), ...(costs[i] ?? []).map(textOf)]),
    ),
    `Target: with 1 % of the requests sampled, an event costs at most ${percent(MAX_COST)} more CPU time: ${highest <= MAX_COST ? 'reached' : 'not proven'}. The highest upper limit is ${percent(highest)}.`,
  ].join('\n\n');
}

interface Cost {
  readonly ratio: number;
  readonly low: number;
  readonly high: number;
}

/** Returns the costs with 0 %, 1 %, and 10 % of the requests sampled. The cost grows linearly with the share. */
function costsOf({ micros: { off, none, ten } }: TracesRow): Cost[] {
  const random = seeded(1);
  const resampled = (values: readonly number[]): number =>
    mean(values.map(() => values[random.between(0, values.length - 1)] ?? Number.NaN));
  const ratios = Array.from({ length: RESAMPLES }, () => {
    const without = resampled(off);
    return [resampled(none) / without, resampled(ten) / without] as const;
  });
  return [0, 0.1, 1].map((part) => {
    const at = ([atNone, atTen]: readonly [number, number]): number => atNone + (atTen - atNone) * part;
    const ascending = ratios.map(at).sort((a, b) => a - b);
    const ratio = at([mean(none) / mean(off), mean(ten) / mean(off)]);
    return { ratio, low: percentile(ascending, 0.025), high: percentile(ascending, 0.975) };
  });
}

function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}

function textOf({ ratio, low, high }: Cost): string {
  return `${ratio.toFixed(3)} (${low.toFixed(3)}–${high.toFixed(3)})`;
}

function percent(share: number): string {
  return `${(share * 100).toFixed(1)} %`;
}
