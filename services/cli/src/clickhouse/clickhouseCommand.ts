/** The command `questlog clickhouse` shows and changes the shards of a ClickHouse cluster. */
import { Command } from 'commander';
import type { Connection } from '../connection.ts';
import { example, wholeNumber } from '../manage.ts';
import { printRows } from '../print.ts';

const COLUMNS = ['partition', 'shard', 'takesEffectAt', 'shards'];

export function clickhouseCommand(connect: () => Promise<Connection>): Command {
  const group = new Command('clickhouse').description('show and change the shards of a ClickHouse cluster');
  example(
    group
      .command('partitions')
      .description('list the shards of the log partitions')
      .option('--json', 'print JSON'),
    'questlog clickhouse partitions',
  ).action(async ({ json = false }) => {
    printRows(await (await connect()).admin.json('listPartitionShards'), COLUMNS, json);
  });
  example(
    group
      .command('move')
      .description('store new events of log partitions on another shard')
      .argument('<partition...>', 'numbers of the partitions', wholeNumbers)
      .requiredOption('--shard <shard>', 'value of the macro {shard} on the nodes of the shard')
      .option('--json', 'print JSON'),
    'questlog clickhouse move 4 5 --shard 3',
  ).action(async (partitions: number[], { shard, json = false }) => {
    const { admin } = await connect();
    printRows(await admin.json('movePartitions', { body: { partitions, shard } }), COLUMNS, json);
  });
  const quorum = group
    .command('quorum')
    .description(
      'list how many replicas of each shard must have an event, or change this number for one shard',
    )
    .option('--shard <shard>', 'value of the macro {shard} on the nodes of the shard')
    .option('--replicas <count>', 'number of replicas: 1 lowers the quorum, and 2 restores it', wholeNumber)
    .option('--json', 'print JSON');
  example(quorum, 'questlog clickhouse quorum --shard 1 --replicas 2').action(
    async ({ shard, replicas, json = false }) => {
      if ((shard === undefined) !== (replicas === undefined))
        quorum.error('error: --shard and --replicas are only valid together');
      const { admin } = await connect();
      const quorums =
        shard === undefined
          ? await admin.json('listShardQuorums')
          : await admin.json('changeShardQuorum', { body: { shard, quorum: replicas } });
      printRows(quorums, ['shard', 'replicas', 'quorum', 'takesEffectAt'], json);
    },
  );
  return group;
}

function wholeNumbers(text: string, earlier: readonly number[] = []): number[] {
  return [...earlier, wholeNumber(text)];
}
