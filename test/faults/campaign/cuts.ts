/** Rows of the campaign: a power loss takes the end of a partition from every broker. What was lost must be named. */
import { readdirSync, readFileSync, truncateSync } from 'node:fs';
import { join } from 'node:path';
import { TOPICS } from '@questlog/schemas/topics/topics';
import { keepSecondRows } from '../../cluster/auditDeployment.ts';
import type { Deployment, ServiceName } from '../../cluster/deployment.ts';
import { eventually } from '../../e2e/builders.ts';
import type { Row, Site } from './row.ts';

const BROKERS = ['broker-1', 'broker-2', 'broker-3'] as const;
const RUNS = 10;
/** As many appends of a partition at most are cut off, but for what stands in a batch with them. */
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
    does: `Removes the last records of a partition of events on all brokers while ${when}.`,
    runs: RUNS,
    plant: async (site) => {
      const { deployment, load, settle } = site.trial;
      // So that all of it is in the tables: what they hold is what must be named.
      await settle();
      const gone = down.flatMap((service) => deployment.running(service));
      for (const service of gone) await service.kill();
      const doubled = await secondRows(deployment);
      const { lost, noted, isRepaired } = await cutEvents(site);
      // Of those whose rows a repair moves it waits for the merges.
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
  /** The append ids of what is gone. */
  readonly lost: readonly string[];
  /** What the product says is gone, whatever the repair is at. */
  noted(): Promise<NotedCut[]>;
  /** Of this one. */
  isRepaired(cut: NotedCut): boolean;
}

interface NotedCut {
  readonly partition: number;
  readonly first: number;
  readonly repaired: number;
  /** Of appends. */
  readonly ids: readonly string[];
}

/** Takes the last appends of a partition of the events away, on every broker. */
async function cutEvents({ trial: { deployment, log }, stack, random }: Site): Promise<Cut> {
  const ends = await log.endOffsets(TOPICS.events);
  const partition = ends.indexOf(Math.max(...ends));
  const wanted = Math.max(1, (ends[partition] ?? 0) - random.between(1, MAX_CUT));
  await stack.do('kill', ...BROKERS);
  const folder = `${deployment.prefix}${TOPICS.events}-${partition}`;
  const folders = BROKERS.map((broker) => join(stack.dataDir, 'stack/cluster', broker, 'log', folder));
  const [first = 0, ...others] = folders.map((of) => cutFile(of, wanted));
  // Before anybody repairs.
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
    // It begins lower where what stands below it were repeats: they have no rows that tell that they are still there.
    isRepaired: (cut) => cut.partition === partition && cut.first <= first && cut.repaired === 1,
  };
}

/** The rows of before a merge hides what is there twice. */
async function secondRows(deployment: Deployment): Promise<string[]> {
  const rows = await deployment.sql<{ id: string }>(
    'SELECT id FROM events GROUP BY id HAVING count() > 1 LIMIT 10',
  );
  return rows.map(({ id }) => `event ${id} was there twice before the cut`);
}

/** Takes away the batches that begin at the offset or behind it, and the last one at least. @returns where the log ends then. */
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

/** Of a record batch, version 2. */
const BATCH_LENGTH = 8;
const BATCH_HEAD = 12;
const LAST_OFFSET_DELTA = 23;
