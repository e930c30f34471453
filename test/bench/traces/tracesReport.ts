/** Formats the cost of traces as Markdown. */
import { table } from '../../tidy/reference/markdown.ts';
import { percentile } from '../connections.ts';
import { median } from '../path/pathFigures.ts';
import { machineLine, titleOf } from '../path/pathReport.ts';
import type { ProcessName, TracesResult, TracesRow } from './measureTraces.ts';

/** Maximum of the additional CPU per event if 1 % of the requests are traced, relative to no traces. */
const MAX_COST = 0.03;

export const TRACES_WORDS = `measures two ingests without traces, and ingests that export the traces of 1 % and 10 % of the
requests to a Collector, in turns. Each cell is the CPU time divided by the time without traces: the median and the quartiles.`;

export function tracesReport({ run, rows }: TracesResult): string {
  const costs = rows.map((row) => ratios(row, 'ten'));
  const tenth = (of: (values: readonly number[]) => number) => percent((Math.max(...costs.map(of)) - 1) / 10);
  return [
    `${machineLine(run)}, Kafka ${run.kafka}. ${rows[0]?.micros.off.length} measurements in ${run.runs} starts.`,
    table(
      ['events × connections', 'without again', '1 %', '10 %'],
      rows.map((row) => [
        titleOf(row),
        ...(['again', 'one', 'ten'] as const).map((name) => spread(ratios(row, name))),
      ]),
    ),
    `Target: with 1 % of the requests sampled, a request costs at most ${percent(MAX_COST)} more CPU time. With 10 % of the requests sampled, the largest cost, divided by ten, is ${tenth(median)} (upper quartile: ${tenth((values) => quartiles(values).high)}).`,
  ].join('\n\n');
}

/** Divides by the mean of both processes without traces, or compares these processes. */
function ratios({ micros }: TracesRow, name: ProcessName): number[] {
  const { off, again } = micros;
  return micros[name].map((value, i) => {
    const first = off[i] ?? Number.NaN;
    return value / (name === 'again' ? first : (first + (again[i] ?? Number.NaN)) / 2);
  });
}

function spread(values: readonly number[]): string {
  const { low, high } = quartiles(values);
  return `${median(values).toFixed(3)} (${low.toFixed(2)}–${high.toFixed(2)})`;
}

function quartiles(values: readonly number[]): { low: number; high: number } {
  const ascending = values.toSorted((a, b) => a - b);
  return { low: percentile(ascending, 0.25), high: percentile(ascending, 0.75) };
}

function percent(share: number): string {
  return `${(share * 100).toFixed(1)} %`;
}
