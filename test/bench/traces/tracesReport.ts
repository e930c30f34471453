/** Formats the cost of traces as Markdown. */
import { table } from '../../tidy/reference/markdown.ts';
import { percentile } from '../connections.ts';
import { median } from '../path/pathFigures.ts';
import { machineLine, micros, titleOf } from '../path/pathReport.ts';
import type { TracesResult, TracesRow } from './measureTraces.ts';

/** Maximum CPU per event if 1 % of the requests are traced, relative to no traces. */
const TO_REACH = 1.03;

export const TRACES_WORDS = `measures ingest while it exports the traces of 1 % of the requests to a Collector, and two
other processes of ingest without traces (off), in turns. Each ratio is a median, with the quartiles. The ratio of the two processes without
traces shows the noise.`;

export function tracesReport({ run, rows }: TracesResult): string {
  return [
    `${machineLine(run)}, Kafka ${run.kafka}. The processes were measured ${rows[0]?.offMicros.length} times, and started ${run.runs} times.`,
    table(
      ['events × connections', 'off, CPU µs per event', 'off again ÷ off', '1 % traced ÷ off', 'target'],
      rows.map((row) => {
        const { offMicros, againMicros } = row;
        const traced = tracedRatios(row);
        const isReached = median(traced) < TO_REACH;
        return [
          titleOf(row),
          micros(median(offMicros)),
          spread(againMicros.map((again, i) => again / (offMicros[i] ?? Number.NaN))),
          spread(traced),
          `below ${TO_REACH}: ${isReached ? '' : 'not '}reached`,
        ];
      }),
    ),
  ].join('\n\n');
}

function tracedRatios({ offMicros, againMicros, tracedMicros }: TracesRow): number[] {
  return tracedMicros.map((traced, i) => (2 * traced) / ((offMicros[i] ?? 0) + (againMicros[i] ?? 0)));
}

function spread(ratios: readonly number[]): string {
  const ascending = ratios.toSorted((a, b) => a - b);
  const [low, high] = [percentile(ascending, 0.25), percentile(ascending, 0.75)];
  return `${median(ratios).toFixed(3)} (${low.toFixed(2)} to ${high.toFixed(2)})`;
}
