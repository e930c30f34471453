/** Formats the cost of traces as Markdown. */
import { table } from '../../tidy/reference/markdown.ts';
import { machineLine, micros, percent, titleOf } from '../path/pathReport.ts';
import type { TracesResult, TracesRow } from './measureTraces.ts';
import type { Estimate } from './tracesCost.ts';

/** Maximum of the additional CPU time per event if 1 % of the requests are sampled. */
const MAX_COST = 0.03;

export const TRACES_WORDS = `measures ingest processes whose traces are on. The clients decide which requests are sampled: in short slices, in a random
order, 0 %, 1 %, 10 %, and 100 % of the requests. Each ratio is the CPU time per request, divided by the CPU time in the slice with 0 % of
the same round. The parentheses contain the 95 % confidence interval (bootstrap). If traces are off, Questlog loads no code of OpenTelemetry.`;

export function tracesReport({ run, rounds, unsampledMicros, rows }: TracesResult): string {
  const costs = rows.map((row) => row.ratioAtOne.high - 1 + unsampledMicros / row.plainMicros);
  const highest = Math.max(...costs);
  return [
    `${machineLine(run)}, Kafka ${run.kafka}. ${run.runs} processes, ${rounds} rounds each, slices of ${run.seconds} s.`,
    table(
      [
        'events × connections',
        'CPU µs per request at 0 %',
        'ratio at 1 %',
        'additional µs of a sampled request, from all slices',
        'ratio at 1 %, from all slices',
      ],
      rows.map(cellsOf),
    ),
    `A request that is not sampled costs ${unsampledMicros.toFixed(2)} µs more than without traces. Target: with 1 % of the requests sampled, an event costs at most ${percent(MAX_COST, 0)} more CPU time: ${highest <= MAX_COST ? 'reached' : 'not proven'}. The highest upper limit is ${percent(highest, 1)}.`,
  ].join('\n\n');
}

function cellsOf(row: TracesRow): string[] {
  const { plainMicros, ratioAtOne, sampledMicros } = row;
  const fitted = (micros: number): number => 1 + (0.01 * micros) / plainMicros;
  const { value, low, high } = sampledMicros;
  const fittedRatio = { value: fitted(value), low: fitted(low), high: fitted(high) };
  return [
    titleOf(row),
    micros(plainMicros),
    textOf(ratioAtOne, 3),
    textOf(sampledMicros, 1),
    textOf(fittedRatio, 4),
  ];
}

function textOf({ value, low, high }: Estimate, digits: number): string {
  return `${value.toFixed(digits)} (${low.toFixed(digits)}–${high.toFixed(digits)})`;
}
