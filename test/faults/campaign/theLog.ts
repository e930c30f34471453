/** Rows of the campaign: deleted offsets, foreign batches, added partitions, and rebalances. */
import { readToEnd } from '@questlog/runtime/log/contract/harness';
import { plainClient } from '@questlog/runtime/log/kafka/testing/plainClient';
import { GROUPS, TOPICS } from '@questlog/schemas/topics/topics';
import { eventually, type TestProject } from '../../e2e/builders.ts';
import type { Planted, Row, Site } from './row.ts';

const CONSUMERS = ['linker', 'projector'] as const;
const RUNS = 10;
const BATCH_RECORDS = 130_000;
const PARTITIONS = 4;
const STORM = { moves: 30, movesInShort: 4, runs: 3 };
/** Time limit until a group is empty: a member that could not leave stays until its session ends. */
const EMPTY_WITHIN_MS = 60_000;

export const THE_LOG: readonly Row[] = [
  {
    name: 'offsets-deleted',
    does: 'Deletes all committed offsets of the linker and the projector.',
    runs: RUNS,
    plant: async ({ trial: { deployment, view } }) => {
      for (const name of CONSUMERS)
        await Promise.all(deployment.running(name).map((service) => service.stop()));
      for (const group of Object.values(GROUPS))
        await eventually(
          () => view.deleteGroups([deployment.prefix + group]).then(() => 'deleted', String),
          (outcome) => outcome === 'deleted',
          EMPTY_WITHIN_MS,
        );
      await deployment.startAll(...CONSUMERS, ...CONSUMERS);
      return { counts: { 'groups forgotten': Object.values(GROUPS).length } };
    },
  },
  {
    name: 'big-batch',
    does: `Appends a copy of an event record ${BATCH_RECORDS.toLocaleString('en-US')} times as one batch.`,
    runs: RUNS,
    plant: plantBigBatch,
  },
  {
    name: 'partitions-added',
    does: 'Adds partitions to every topic and starts one more process of each service.',
    runs: RUNS,
    cutsOff: true,
    plant: async ({ trial: { deployment, view } }) => {
      const topics = [TOPICS.events, TOPICS.reportLinks, TOPICS.sessions, TOPICS.linkedEvents];
      await view.addPartitions(
        topics.map((topic) => deployment.prefix + topic),
        PARTITIONS + 2,
      );
      for (const name of ['ingest', ...CONSUMERS] as const) {
        await deployment.running(name)[0]?.kill();
        await deployment.start(name);
      }
      return { counts: { partitions: 2 * topics.length } };
    },
  },
  {
    name: 'rebalance-storm',
    does: `Starts and stops linkers and projectors ${STORM.moves} times, and kills some of them.`,
    runs: STORM.runs,
    plant: async ({ trial: { deployment }, random, isShort }) => {
      const moves = isShort ? STORM.movesInShort : STORM.moves;
      for (let move = 0; move < moves; move += 2) {
        const name = CONSUMERS[(move / 2) % CONSUMERS.length] ?? 'linker';
        await deployment.start(name);
        const [oldest] = deployment.running(name);
        await (random.chance(0.3) ? oldest?.kill() : oldest?.stop());
      }
      return { counts: { 'joins and leaves': moves } };
    },
  },
];

/** Appends a large batch of duplicate appends, which must have no effect. */
async function plantBigBatch({ trial, ground, engines }: Site): Promise<Planted> {
  const { deployment, load, log, projects } = trial;
  const [game] = projects as [TestProject];
  await load.probe(game);
  const partitions = await readToEnd(log, TOPICS.events);
  const records = partitions.flatMap((those, partition) => those.map((record) => ({ ...record, partition })));
  // The inflated size must be below the limit of the reader.
  const [smallest] = records.toSorted((a, b) => (a.value?.length ?? 0) - (b.value?.length ?? 0));
  if (smallest === undefined) throw new Error('the events topic is empty');
  const client = plainClient((ground?.engines ?? engines).brokers);
  const { key, value, headers, partition } = smallest;
  await client.appendBatch(
    deployment.prefix + TOPICS.events,
    partition,
    { key, value, headers },
    BATCH_RECORDS,
  );
  return { counts: { 'records of the batch': BATCH_RECORDS } };
}
