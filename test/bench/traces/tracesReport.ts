/** Formats the cost of traces as Markdown. */
import { table } from '../../tidy/reference/markdown.ts';
import { percentile } from '../connections.ts';
import { median } from '../path/pathFigures.ts';
import { machineLine, titleOf } from '../path/pathReport.ts';
import type { TracesResult, TracesRow } from './measureTraces.ts';

/** Maximum CPU per event if 1 % of the requests are traced, relative to no traces. */
const TO_REACH = 1.03;

export const TRACES_WORDS = `measures an ingest that exports the traces of 1 % of the requests to a Collector, and two
ingests without traces, in turns. Each cell is a ratio of the CPU times: the median and the quartiles.`;

export function tracesReport({ run, rows }: TracesResult): string {
  const isReached = rows.every((row) => median(tracedRatios(row)) < TO_REACH);
  return [
    `${machineLine(run)}, Kafka ${run.kafka}. ${rows[0]?.offMicros.length} measurements in ${run.runs} starts.`,
    table(
      ['events × connections', 'without ÷ without traces', '1 % ÷ without traces'],
      rows.map((row) => {
        const again = row.againMicros.map((micros, i) => micros / (row.offMicros[i] ?? Number.NaN));
        return [titleOf(row), spread(again), spread(tracedRatios(row))];
      }),
    ),
    `Target: below ${TO_REACH}, ${isReached ? 'reached' : 'not reached'}.`,
  ].join('\n\n');
}

function tracedRatios({ offMicros, againMicros, tracedMicros }: TracesRow): number[] {
  return tracedMicros.map((traced, i) => (2 * traced) / ((offMicros[i] ?? 0) + (againMicros[i] ?? 0)));
}

function spread(ratios: readonly number[]): string {
  const ascending = ratios.toSorted((a, b) => a - b);
  const [low, high] = [percentile(ascending, 0.25), percentile(ascending, 0.75)];
  return `${median(ratios).toFixed(3)} (${low.toFixed(2)}–${high.toFixed(2)})`;
}
