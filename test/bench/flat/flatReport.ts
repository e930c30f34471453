/** The cost of larger deployments, as Markdown. */

import { MAX_OPEN_WINDOWS } from '@questlog/ingest/entityCache/core/openReports';
import { DEFAULT_BOUNDS } from '@questlog/ingest/entityCache/entityIndex';
import { table } from '../../tidy/reference/markdown.ts';
import { type CostFigures, mean } from '../path/pathFigures.ts';
import type { Shape } from '../path/pathOptions.ts';
import { factsLine, grouped, titleOf } from '../path/pathReport.ts';
import { changeName, type FlatFigures, type FlatResult, type FlatRow } from './measureFlat.ts';

/** Target of the throughput at spread 8, relative to spread 1. */
const SPREAD_TO_REACH = 0.85;

export const FLAT_WORDS = `measures a small deployment (the base) before and after each larger deployment.

Ingest caches ${grouped(DEFAULT_BOUNDS.maxWeight)} sessions and ${grouped(MAX_OPEN_WINDOWS)} open reports.`;

/** Returns one table with the ratios to the base for all shapes. */
export function flatReport({ run, base, rows }: FlatResult): string {
  const shapes = rows[0]?.figures ?? [];
  return [
    `${factsLine(run)}\n\nEach cell shows the CPU time per event and the throughput, divided by the figures of the base.`,
    table(
      ['deployment', ...shapes.map(titleOf)],
      [
        [`base: ${changeName(base)}`, ...shapes.map(() => '1.00, 1.00')],
        ...rows.map(({ change, figures }) => [
          changeName(change),
          ...figures.map(({ base: both, changed }) => {
            const cpu = ratio(both, changed, ({ cpuMicrosPerEvent }) => cpuMicrosPerEvent);
            return `${cpu}, ${ratio(both, changed, ({ requestsPerSecond }) => requestsPerSecond)}`;
          }),
        ]),
      ],
    ),
    ...spreadTable(rows, shapes),
  ].join('\n\n');
}

function spreadTable(rows: readonly FlatRow[], shapes: readonly Shape[]): string[] {
  const cells = rows.flatMap((row) => (row.change.spread === undefined ? [] : spreadRows(row, rows)));
  const header = ['throughput relative to spread 1', ...shapes.map(titleOf), 'target'];
  return cells.length === 0 ? [] : [table(header, cells)];
}

/** Compares a row with the base or, if several properties differ, with the row that differs only in the others. */
function spreadRows({ change, figures }: FlatRow, rows: readonly FlatRow[]): string[][] {
  const { spread, ...others } = change;
  const atOne = rows.find((row) => changeName(row.change) === changeName(others))?.figures ?? [];
  const ratios = figures.map((of, i) => {
    const beside = atOne[i];
    return throughput(of) / (beside === undefined ? 1 : throughput(beside));
  });
  const each = ratios.map((ratio) => ratio.toFixed(2));
  const isReached = ratios.every((ratio) => ratio >= SPREAD_TO_REACH);
  return [[changeName(change), ...each, `${SPREAD_TO_REACH}: ${isReached ? '' : 'not '}reached`]];
}

function throughput({ base, changed }: FlatFigures): number {
  return changed.requestsPerSecond / mean(base.map(({ requestsPerSecond }) => requestsPerSecond));
}

function ratio(
  base: readonly CostFigures[],
  changed: CostFigures,
  of: (figures: CostFigures) => number,
): string {
  return (of(changed) / mean(base.map(of))).toFixed(2);
}
