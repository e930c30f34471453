/** Updates the tables of `docs/performance.md` with the results of the benchmarks. The other text of the page is written by hand. */
import { fileURLToPath } from 'node:url';
import { textOf } from '../../tidy/projectFiles.ts';
import { table } from '../../tidy/reference/markdown.ts';
import { failuresOf, targetOf } from '../kinds/kindsReport.ts';
import type { KindRow } from '../kinds/measureKinds.ts';
import { KINDS } from '../kinds/requestKinds.ts';
import { type BenchResults, type MachineFacts, type RowFigures, readResults } from './pathFigures.ts';
import { nameOf, type Shape } from './pathOptions.ts';
import { micros, ratioTo, titleOf } from './pathReport.ts';
import { RESULTS } from './performancePage.ts';

export const SUMMARY_PAGE = 'docs/performance.md';

export function performanceSummary(): string {
  const results = Object.values(readResults(fileURLToPath(new URL(`../../../${RESULTS}`, import.meta.url))));
  return withTables(textOf(SUMMARY_PAGE), {
    kinds: results.flatMap((of) => kindsTable(of) ?? []).join('\n\n'),
    plain: plainTable(results.flatMap(({ beside }) => beside ?? [])),
  });
}

/**
 * Replaces the text between the comment that starts with a table's name and the next comment `<!-- end -->`.
 * @throws Error if the page has no such comments
 */
function withTables(page: string, tables: Readonly<Record<string, string>>): string {
  return Object.entries(tables).reduce((text, [name, lines]) => {
    const block = new RegExp(`(<!-- ${name}: [^>]*-->\n\n)[^]*?(\n\n<!-- end -->)`);
    if (!block.test(text)) throw new Error(`the page has no place for the table ${name}`);
    return text.replace(block, (_, start: string, end: string) => `${start}${lines}${end}`);
  }, page);
}

/**
 * Returns the costs relative to plain requests and, in parentheses, relative to the Collector. Undefined if the kinds of requests
 * and the Collector were not measured in the same run.
 */
export function kindsTable({ kinds, beside }: BenchResults): string | undefined {
  if (kinds === undefined || beside?.run.at !== kinds.run.at) return undefined;
  const byKind = [...Map.groupBy(kinds.rows, ({ kind }) => kind)];
  const toCollector = ({ events, connections }: Shape): number => {
    const row = beside.rows.find((one) => nameOf(one) === nameOf({ events, connections }));
    return (row && ratioTo('collector', row)) ?? Number.NaN;
  };
  const cellOf = (row: KindRow): string =>
    `${row.ratio.toFixed(2)} (${(row.ratio * toCollector(row)).toFixed(2)})${failuresOf(row)}`;
  const shapes = byKind[0]?.[1] ?? [];
  return table(
    [
      runTitle(kinds.run),
      ...shapes.map(({ events, connections }) => titleOf({ events, connections })),
      'target',
    ],
    byKind.map(([kind, rows]) => [KINDS[kind].title, ...rows.map(cellOf), targetOf(KINDS[kind])]),
  );
}

interface Measured {
  readonly run: MachineFacts;
  readonly rows: readonly RowFigures[];
}

function plainTable(measured: readonly Measured[]): string {
  const shapes = measured[0]?.rows ?? [];
  return table(
    ['events × connections', ...measured.map(({ run }) => runTitle(run))],
    shapes.map((shape) => [
      titleOf(shape),
      ...measured.map(({ rows }) => {
        const row = rows.find((one) => nameOf(one) === nameOf(shape));
        const ratio = row && ratioTo('collector', row)?.toFixed(2);
        return `${micros(row?.peers.questlog?.closed.cpuMicrosPerEvent)} (${ratio ?? '–'})`;
      }),
    ]),
  );
}

/** Returns the CPU and the date, such as `Intel Xeon, 2026-11-29`. */
function runTitle({ machine, at }: MachineFacts): string {
  const cpu = machine.split(',')[0]?.replaceAll(/\(R\)| Processor/g, '');
  return `${cpu}, ${at.slice(0, 10)}`;
}
