/** Formats the cost of traces as Markdown. */
import { table } from '../../tidy/reference/markdown.ts';
import { grouped, machineLine, percent, titleOf } from '../path/pathReport.ts';
import type { TracesResult } from './measureTraces.ts';
import type { Ratio } from './tracesCost.ts';

/** Maximum of the additional CPU time per event if 1 % of the requests are sampled. */
const MAX_COST = 0.03;

export const TRACES_WORDS = `measures ingest processes that export traces. A round has three slices
of half a second in a random order, with 0 %, 1 %, and 10 % sampled requests. A ratio is the CPU time per request in a slice, divided by that
of the round's slice with 0 %. Parentheses contain the 95 % confidence interval of the median (bootstrap).`;

export function tracesReport({ run, unsampledMicros, rows }: TracesResult): string {
  const highest = Math.max(
    ...rows.map(({ atTenPercent: { high }, plainMicros }) => (high - 1) / 10 + unsampledMicros / plainMicros),
  );
  return [
    `${machineLine(run)}, Kafka ${run.kafka}, ${run.runs} processes, each for ${run.seconds} s per row.`,
    table(
      ['events × connections', 'CPU µs per request at 0 %', 'ratio at 1 %', 'ratio at 10 %'],
      rows.map((row) => [
        titleOf(row),
        grouped(row.plainMicros),
        textOf(row.atOnePercent),
        textOf(row.atTenPercent),
      ]),
    ),
    `A request that is not sampled costs ${unsampledMicros.toFixed(2)} µs more than without traces. Target: with 1 % of the requests sampled, an event costs at most ${percent(MAX_COST, 0)} more CPU time: ${highest <= MAX_COST ? 'reached' : 'not proven'}. The cost of 1 % is a tenth of the cost of 10 %, and at most ${percent(highest, 1)}.`,
  ].join('\n\n');
}

function textOf({ value, low, high }: Ratio): string {
  return `${value.toFixed(3)} (${low.toFixed(3)} to ${high.toFixed(3)})`;
}
