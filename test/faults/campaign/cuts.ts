/** Rows of the campaign: a power loss removes the end of a partition from every broker. The product must name the lost records. */
import { readdirSync, readFileSync, truncateSync } from 'node:fs';
import { join } from 'node:path';
import { TOPICS } from '@questlog/schemas/topics/topics';
import { keepSecondRows } from '../../cluster/auditDeployment.ts';
import type { Deployment, ServiceName } from '../../cluster/deployment.ts';
import { eventually } from '../../e2e/builders.ts';
import type { Row, Site } from './row.ts';

const BROKERS = ['broker-1', 'broker-2', 'broker-3'] as const;
const RUNS = 10;
/** Maximum appends that a truncation removes, not counting other appends in the same batch. */
const MAX_CUT = 20;
const REPAIRED_WITHIN_MS = 90_000;

export const CUTS: readonly Row[] = [
  cutRow('cut-running', 'all services run', []),
  cutRow('cut-down', 'linkers and projectors are down', ['linker', 'projector']),
  cutRow('cut-before-ingest', 'every ingest is down', ['ingest']),
];

function cutRow(name: string, when: string, down: readonly ServiceName[]): Row {
  return {
    name,
    does: `Truncates a partition on all brokers while ${when}.`,
    runs: RUNS,
    plant: async (site) => {
      const { deployment, load, settle } = site.trial;
      // Projects everything first, so that the tables show which records must be named as lost.
      await settle();
      const gone = down.flatMap((service) => deployment.running(service));
      for (const service of gone) await service.kill();
      const doubled = await secondRows(deployment);
      const { lost, noted, isRepaired } = await cutEvents(site);
      // A repair waits for the merges of the parts whose rows it moves.
      await deployment.command('SYSTEM START MERGES');
      await deployment.startAll(...gone.map((service) => service.name));
      load.start();
      await eventually(noted, (rows) => rows.some(isRepaired), REPAIRED_WITHIN_MS);
      await keepSecondRows(deployment);
      const check = async (): Promise<string[]> => {
        const told = (await noted()).filter(isRepaired).flatMap(({ ids }) => ids);
        return [
          ...doubled,
          ...lost.flatMap((id) =>
            told.includes(id) ? [] : `append ${id} was cut off and is not in truncations`,
          ),
          ...told.flatMap((id) =>
            lost.includes(id) ? [] : `append ${id} is in truncations and was not cut off`,
          ),
        ];
      };
      return { counts: { 'appends cut off and named': lost.length }, check };
    },
  };
}

interface Cut {
  /** Append ids of the lost records. */
  readonly lost: readonly string[];
  /** Returns the truncations that the product has recorded, in any state of the repair. */
  noted(): Promise<NotedCut[]>;
  /** True if the product has repaired this truncation. */
  isRepaired(cut: NotedCut): boolean;
}

interface NotedCut {
  readonly partition: number;
  readonly first: number;
  readonly repaired: number;
  /** Append ids. */
  readonly ids: readonly string[];
}

/** Removes the last appends of a partition of the events on every broker. */
async function cutEvents({ trial: { deployment, log }, stack, random }: Site): Promise<Cut> {
  const ends = await log.endOffsets(TOPICS.events);
  const partition = ends.indexOf(Math.max(...ends));
  const wanted = Math.max(1, (ends[partition] ?? 0) - random.between(1, MAX_CUT));
  await stack.do('kill', ...BROKERS);
  const folder = `${deployment.prefix}${TOPICS.events}-${partition}`;
  const folders = BROKERS.map((broker) => join(stack.dataDir, 'stack/cluster', broker, 'log', folder));
  const [first = 0, ...others] = folders.map((of) => cutFile(of, wanted));
  // Reads the appends before a repair starts.
  const appends = await deployment.sql<{ id: string }>(
    `SELECT DISTINCT toString(append_id) AS id FROM appends
     WHERE log_id = '${log.id}' AND log_partition = ${partition} AND log_offset >= ${first}`,
  );
  const lost = appends.map(({ id }) => id);
  await stack.do('start', ...BROKERS);
  if (others.some((other) => other !== first))
    throw new Error(`one broker is cut at ${first}, and ${others}`);
  if (lost.length === 0) throw new Error('nothing was cut off');
  return {
    lost,
    noted: () =>
      deployment.sql<NotedCut>(
        `SELECT log_partition AS partition, toUInt32(first_offset) AS first, repaired, ids
         FROM truncations FINAL WHERE topic = '${TOPICS.events}'`,
      ),
    // The recorded truncation can start at a lower offset if the records below are duplicate appends, which have no rows.
    isRepaired: (cut) => cut.partition === partition && cut.first <= first && cut.repaired === 1,
  };
}

/** Reads the rows before a merge removes duplicates. */
async function secondRows(deployment: Deployment): Promise<string[]> {
  const rows = await deployment.sql<{ id: string }>(
    'SELECT id FROM events GROUP BY id HAVING count() > 1 LIMIT 10',
  );
  return rows.map(({ id }) => `event ${id} was stored twice before the truncation`);
}

/** Removes the batches from the offset on, at least the last batch. @returns the new end offset of the log */
function cutFile(folder: string, offset: number): number {
  const segment = readdirSync(folder)
    .filter((name) => name.endsWith('.log'))
    .toSorted()
    .at(-1);
  const path = join(folder, segment ?? '');
  const bytes = readFileSync(path);
  let [begin, end] = [0, 0];
  for (let at = 0; at < bytes.length; ) {
    const base = Number(bytes.readBigInt64BE(at));
    const next = at + BATCH_HEAD + bytes.readInt32BE(at + BATCH_LENGTH);
    if (base >= offset || next >= bytes.length) break;
    [begin, end] = [next, base + bytes.readInt32BE(at + LAST_OFFSET_DELTA) + 1];
    at = next;
  }
  truncateSync(path, begin);
  return end;
}

/** Position of the length in a record batch, version 2. */
const BATCH_LENGTH = 8;
const BATCH_HEAD = 12;
const LAST_OFFSET_DELTA = 23;
