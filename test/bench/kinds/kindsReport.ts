/** Formats the cost of the kinds of requests as Markdown. */
import { table } from '../../tidy/reference/markdown.ts';
import { median, type PathResult, type RowFigures } from '../path/pathFigures.ts';
import { nameOf, type Shape } from '../path/pathOptions.ts';
import { factsLine, micros, ratioTo, titleOf } from '../path/pathReport.ts';
import type { KindRow, KindsResult } from './measureKinds.ts';
import { KINDS, type RequestKind } from './requestKinds.ts';

/** @param beside comparison with the Collector. The report shows it only if both results are from the same run. */
export function kindsReport({ run, rows }: KindsResult, beside?: PathResult): string {
  const byKind = [...Map.groupBy(rows, ({ kind }) => kind)];
  const shapes: Shape[] = (byKind[0]?.[1] ?? []).map(({ events, connections }) => ({ events, connections }));
  const plain = shapes.map((shape) => {
    const of = rows.filter(({ events, connections }) => nameOf({ events, connections }) === nameOf(shape));
    return micros(median(of.map(({ plainMicrosPerEvent }) => plainMicrosPerEvent)));
  });
  const peers = beside?.run.at === run.at ? beside.rows : [];
  const collector = shapes.map((shape) => collectorCell(peers.find((row) => nameOf(row) === nameOf(shape))));
  return [
    factsLine(run),
    table(
      ['requests', ...shapes.map(titleOf), 'target'],
      [
        ['plain, CPU µs per event', ...plain, ''],
        ...byKind.map(([kind, of]) => [KINDS[kind].title, ...of.map(cellOf), targetOf(KINDS[kind])]),
        ...(peers.length === 0 ? [] : [['OpenTelemetry Collector, plain', ...collector, '']]),
      ],
    ),
  ].join('\n\n');
}

function cellOf(row: KindRow): string {
  return `${row.ratio?.toFixed(2) ?? '–'}${failuresOf(row)}`;
}

/** Returns an empty text if all requests succeeded. */
export function failuresOf({ refused, timedOut }: KindRow): string {
  const failed = refused + timedOut;
  return failed === 0 ? '' : `; ${failed} failed`;
}

export function targetOf({ toReach, judgedEvents }: RequestKind): string {
  return `${toReach ?? '–'}${judgedEvents === undefined ? '' : ` at ${judgedEvents}`}`;
}

function collectorCell(row: RowFigures | undefined): string {
  const ratio = row && ratioTo('collector', row);
  return ratio === undefined ? '–' : (1 / ratio).toFixed(2);
}
