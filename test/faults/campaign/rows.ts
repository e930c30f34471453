/** The rows of the campaign, in the order of the page. */
import { NETWORK } from '../proxy/networkRows.ts';
import { CLOCKS } from './clocks.ts';
import { CUTS } from './cuts.ts';
import { DISKS } from './disks.ts';
import { PROCESSES } from './processes.ts';
import type { Row } from './row.ts';
import { THE_LOG } from './theLog.ts';

export const GROUPS_OF_ROWS: Readonly<Record<string, readonly Row[]>> = {
  Processes: PROCESSES,
  'Truncated log': CUTS,
  'Consumer groups and topics': THE_LOG,
  Network: NETWORK,
  Clocks: CLOCKS,
  Disks: DISKS,
};

export const ROWS: readonly Row[] = Object.values(GROUPS_OF_ROWS).flat();

/** @throws where there is none of this name. */
export function rowNamed(name: string): Row {
  const row = ROWS.find((one) => one.name === name);
  if (row === undefined) throw new Error(`there is no row ${name}; --list names all of them`);
  return row;
}

/** What leaves a deployment as it was. */
const PASSING = new Set([...PROCESSES, ...NETWORK].filter(({ lastsMs }) => lastsMs === undefined));
const MAX_TOGETHER = 20;

/** Passing rows of one ground, a few to a deployment; every other row has one of its own. */
export function together(rows: readonly Row[]): Row[][] {
  const groups = Map.groupBy(rows, (row) => (PASSING.has(row) ? row.ground : row));
  return [...groups.values()].flatMap((those) =>
    those.flatMap((_, at) => (at % MAX_TOGETHER === 0 ? [those.slice(at, at + MAX_TOGETHER)] : [])),
  );
}

/** What takes seconds; together they stay under eight minutes where nothing else runs. */
const SHORT = [
  ...['kill-ingest', 'kill-linker', 'kill-projector', 'still-linker', 'still-projector'],
  ...['kill-broker', 'kill-registry', 'kill-clickhouse', 'offsets-deleted', 'cut-running'],
];

/** The short form: rows of the same ground have one deployment, one after the other. */
export function shortRuns(): readonly (readonly Row[])[] {
  return [...Map.groupBy(SHORT.map(rowNamed), ({ ground }) => ground).values()];
}
