/** What more of everything costs, as Markdown. */
import { MAX_OPEN_WINDOWS } from '@questlog/ingest/known/core/recentReports';
import { BOUNDS } from '@questlog/ingest/known/firstRecordMemory';
import type { CostFigures } from '../path/pathFigures.ts';
import { nameOf, type Shape } from '../path/pathOptions.ts';
import { factsLine, grouped, mebibytes, micros, table, titleOf } from '../path/pathReport.ts';
import { changeName, type FlatFigures, type FlatResult, type FlatRow, type Size } from './measureFlat.ts';

/** Of the throughput of spread 1, at spread 8. */
const SPREAD_TO_REACH = 0.9;

export const FLAT_WORDS = `\`--flat\` measures the ingest of a deployment that has more of something beside one that has little of everything, the base, which is
measured before and after it, on the same broker. A ratio is to the mean of the two; where these differ by as much, it says nothing.
\`--only spread\` measures those whose name has the word. The whole takes about 20 minutes.

- Sessions beyond the base's stand in ClickHouse alone, as if they were of long ago: the first event of one is a look-up there.
  Memory keeps ${grouped(BOUNDS.kept)} of those that were used lately. Where more are in use at once, an event of another one is a look-up again, which many
  requests share: that is as far as it grows.
- A report is open for the events of its session; an event compares its time with each open one of its session, and its answer names
  those that it belongs to. Memory holds ${grouped(MAX_OPEN_WINDOWS)} open reports, and of more of them forgets the oldest.
- A request whose events lie in several lanes is an append to each of their partitions; it grows up to one for each lane in the request.
  The events of a game server are of many sessions, and so of many lanes; those of a game are of one.
- Each partition and each tenant has its own tail, counters and limits in memory; nothing of it is gone through for an event.`;

export function flatReport({ run, base, rows }: FlatResult): string {
  const measured = rows.flatMap(({ figures }) => ('absent' in figures ? [] : figures));
  const shapes = new Map(measured.map((one) => [nameOf(one), one as Shape]));
  return [
    `${factsLine(run)}\nThe base has: ${changeName(base)}.`,
    ...[...shapes.values()].map((shape) => shapeTable(base, rows, shape)),
    ...rows.flatMap((row) => (row.change.spread === undefined ? [] : [spreadLine(row, rows)])),
    ...rows.flatMap(({ change, figures }) =>
      'absent' in figures ? [`${changeName(change)}: not measured: ${figures.absent}.`] : [],
    ),
  ].join('\n\n');
}

function shapeTable(base: Size, rows: readonly FlatRow[], shape: Shape): string {
  const ofShape = rows.flatMap(({ change, figures }) => {
    const of = 'absent' in figures ? undefined : figures.find((one) => nameOf(one) === nameOf(shape));
    return of === undefined ? [] : [{ change, of }];
  });
  return [
    `${titleOf(shape)} events a request and connections:`,
    '',
    table(
      [
        ...['it has', 'instead of', 'CPU µs an event', 'base before / after', 'ratio'],
        ...['events a second', 'of the base', 'RSS, MiB', 'base', 'refused / timed out'],
      ],
      ofShape.map(({ change, of: { base: both, changed } }) => [
        changeName(change),
        Object.keys(change)
          .map((name) => grouped(base[name as keyof Size]))
          .join(', '),
        micros(changed.cpuMicrosPerEvent),
        both.map(({ cpuMicrosPerEvent }) => micros(cpuMicrosPerEvent)).join(' / '),
        ratio(both, changed, ({ cpuMicrosPerEvent }) => cpuMicrosPerEvent),
        grouped(changed.requestsPerSecond * shape.events),
        ratio(both, changed, ({ requestsPerSecond }) => requestsPerSecond),
        mebibytes(changed.rssBytes),
        both.map(({ rssBytes }) => mebibytes(rssBytes)).join(' / '),
        `${changed.refused} / ${changed.timedOut}`,
      ]),
    ),
  ].join('\n');
}

/** Beside the base, or where it differs in more, beside the row that differs in that alone. */
function spreadLine({ change, figures }: FlatRow, rows: readonly FlatRow[]): string {
  if ('absent' in figures) return '';
  const { spread, ...others } = change;
  const isBase = Object.keys(others).length === 0;
  const atOne = rows.find((row) => changeName(row.change) === changeName(others))?.figures ?? [];
  if (!isBase && ('absent' in atOne || atOne.length === 0)) return '';
  const ratios = figures.map((of, i) => {
    const beside = 'absent' in atOne ? undefined : atOne[i];
    return throughput(of) / (beside === undefined ? 1 : throughput(beside));
  });
  const each = figures.map((of, i) => `${ratios[i]?.toFixed(2)} at ${titleOf(of)}`);
  const isReached = ratios.every((ratio) => ratio >= SPREAD_TO_REACH);
  return `Events a second at ${changeName(change)}, of those at 1: ${each.join(', ')}. ${SPREAD_TO_REACH} is to be reached, and is ${isReached ? '' : 'not '}reached.`;
}

function throughput({ base, changed }: FlatFigures): number {
  return changed.requestsPerSecond / mean(base.map(({ requestsPerSecond }) => requestsPerSecond));
}

function ratio(
  base: readonly CostFigures[],
  changed: CostFigures,
  of: (figures: CostFigures) => number | null,
): string {
  const [value, beside] = [of(changed) ?? Number.NaN, mean(base.map((one) => of(one) ?? Number.NaN))];
  return Number.isFinite(value / beside) ? (value / beside).toFixed(2) : '–';
}

function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}
