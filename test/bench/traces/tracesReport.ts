/** Formats the cost of traces as Markdown. */
import { table } from '../../tidy/reference/markdown.ts';
import { percentile } from '../connections.ts';
import { median } from '../path/pathFigures.ts';
import { machineLine, titleOf } from '../path/pathReport.ts';
import type { ProcessName, TracesResult, TracesRow } from './measureTraces.ts';

/** Maximum CPU per event if 1 % of the requests are traced, relative to no traces. */
const TO_REACH = 1.03;

export const TRACES_WORDS = `measures two ingests without traces, and ingests that export the traces of 1 % and 10 % of the
requests to a Collector, in turns. Each cell is the CPU time divided by the time without traces: the median and the quartiles.`;

export function tracesReport({ run, rows }: TracesResult): string {
  const isReached = rows.every((row) => median(ratios(row, 'one')) < TO_REACH);
  return [
    `${machineLine(run)}, Kafka ${run.kafka}. ${rows[0]?.micros.off.length} measurements in ${run.runs} starts.`,
    table(
      ['events × connections', 'without again', '1 %', '10 %'],
      rows.map((row) => [
        titleOf(row),
        ...(['again', 'one', 'ten'] as const).map((name) => spread(ratios(row, name))),
      ]),
    ),
    `Target for 1 %: below ${TO_REACH}, ${isReached ? 'reached' : 'not reached'}.`,
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
  const ascending = values.toSorted((a, b) => a - b);
  const [low, high] = [percentile(ascending, 0.25), percentile(ascending, 0.75)];
  return `${median(values).toFixed(3)} (${low.toFixed(2)}–${high.toFixed(2)})`;
}
