/** Lists the rows of the campaign in the order of the page. */
import { NETWORK } from '../proxy/networkRows.ts';
import { CLICKHOUSE_CLUSTER } from './clickhouseCluster/clusterRows.ts';
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
  'ClickHouse cluster': CLICKHOUSE_CLUSTER,
};

export const ROWS: readonly Row[] = Object.values(GROUPS_OF_ROWS).flat();

/**
 * @param name name of a row. Names joined with `+` give a row that injects the faults at the same time.
 * @throws Error for an unknown name
 */
export function rowNamed(name: string): Row {
  const names = name.split('+');
  if (names.length > 1) return atOnce(names.map(rowNamed));
  const row = ROWS.find((one) => one.name === name);
  if (row === undefined) throw new Error(`there is no row ${name}; --list names all of them`);
  return row;
}

function atOnce(rows: readonly Row[]): Row {
  return {
    name: rows.map(({ name }) => name).join('+'),
    does: rows.map(({ does }) => does).join(' '),
    runs: 1,
    ...(rows.some(({ cutsOff }) => cutsOff) && { cutsOff: true }),
    plant: async (site) => {
      const planted = await Promise.all(
        rows.map(async ({ plant }) => (await plant?.(site)) ?? { counts: {} }),
      );
      const counts: Record<string, number> = {};
      for (const [name, count] of planted.flatMap((one) => Object.entries(one.counts)))
        counts[name] = (counts[name] ?? 0) + count;
      return {
        counts,
        check: async () =>
          (await Promise.all(planted.map(async ({ check }) => (await check?.()) ?? []))).flat(),
      };
    },
  };
}

/** Rows whose runs can share a deployment, because the faults leave the deployment unchanged. */
const PASSING = new Set(
  [...PROCESSES, ...NETWORK, ...CLICKHOUSE_CLUSTER].filter(({ lastsMs, grows }) => !lastsMs && !grows),
);
/** Maximum number of runs of a deployment, because each run audits the events of all earlier runs. */
const MAX_RUNS = 20;

/** Groups runs of one environment that can share a deployment. @param rows the row of each run */
export function deployments(rows: readonly Row[]): Row[][] {
  const groups = Map.groupBy(rows.entries(), ([at, row]) => (PASSING.has(row) ? row.ground : at));
  return [...groups.values()].flatMap((those) =>
    those.flatMap((_, at) =>
      at % MAX_RUNS === 0 ? [those.slice(at, at + MAX_RUNS).map(([, row]) => row)] : [],
    ),
  );
}

/**
 * Fast rows without the rows that other tests cover: `test/cluster/failover` kills linkers, and `test/cluster/truncatedLog`
 * removes records. Independent faults happen at the same time to save time, because each fault mostly waits.
 */
const SHORT = [
  ...['kill-ingest+kill-projector', 'still-linker+still-projector'],
  ...['kill-broker+kill-registry', 'kill-clickhouse', 'offsets-deleted'],
];

/** Returns the runs of the short form: rows of the same environment share a deployment. */
export function shortRuns(): readonly (readonly Row[])[] {
  return [...Map.groupBy(SHORT.map(rowNamed), ({ ground }) => ground).values()];
}
