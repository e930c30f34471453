/** Stops a broker that two partitions need: other partitions must not wait before Kafka detects the failure. */
import { randomUUID } from 'node:crypto';
import { aName, aRecord, textsToEnd, until } from '@questlog/runtime/log/contract/harness';
import { openKafkaLog } from '@questlog/runtime/log/kafka/kafkaLog';
import { unreplicatedTopics } from '@questlog/runtime/log/kafka/testing/unreplicated';
import type { Log } from '@questlog/runtime/log/log';
import { Unavailable } from '@questlog/runtime/process/errors';
import { silentLogger } from '@questlog/runtime/process/logger';
import { expect, onTestFinished, test } from 'vitest';
import type { OwnStack } from '../stack/ownStack.ts';

const VICTIM = 3;
/** Partition that the victim follows; without the victim it has too few replicas. */
const FOLLOWED = 0;
/** Partition with the victim as the only replica. */
const LED = 1;
const WELL = [2, 3, 4];
const REPLICAS = [
  [1, VICTIM],
  [VICTIM, 1],
  [1, 2],
  [2, 1],
  [1, 2],
];
const CONFIG = {
  'cleanup.policy': 'delete',
  'max.message.bytes': '1000000',
  'min.insync.replicas': '2',
};

export function sickPartition(own: OwnStack): void {
  test('does not delay other partitions, and its partitions continue when it resumes', async () => {
    const brokers = own.engines?.brokers.split(',') ?? [];
    const prefix = `sick-${randomUUID()}-`;
    const cleanup = { policy: 'delete', retentionMs: 3_600_000 } as const;
    const name = aName('topic');
    await unreplicatedTopics(brokers).create(`${prefix}${name}`, CONFIG, REPLICAS);
    const connection = { brokers, clientId: 'questlog-tests' };
    const log = await openKafkaLog({ connection, prefix, replicationFactor: 3, logger: silentLogger });
    onTestFinished(() => log.close());
    await log.ensureTopics([{ name, partitions: REPLICAS.length, cleanup, maxRecordBytes: 100_000 }]);
    const kept: string[][] = REPLICAS.map(() => []);
    const append = async (partition: number, text: string) => {
      await log.append(name, partition, [aRecord(text)]);
      kept[partition]?.push(text);
    };
    for (const partition of REPLICAS.keys()) await append(partition, 'before');

    const { pid } = (await own.commands.status())[`broker-${VICTIM}`] ?? { pid: Number.NaN };
    process.kill(pid, 'SIGSTOP');
    onTestFinished(() => void process.kill(pid, 'SIGCONT'));
    const sick = [FOLLOWED, LED].map((partition) => append(partition, 'meanwhile'));
    const outcomes = Promise.allSettled(sick);
    await until(() => sickOf(log).length === 2);
    expect(sickOf(log)).toEqual([FOLLOWED, LED]);
    // Few rounds, because the cluster elects other leaders within nine seconds.
    for (let round = 0; round < 3; round += 1) {
      await Promise.all(WELL.map((partition) => append(partition, `meanwhile ${round}`)));
    }
    // The cluster has not noticed the failure yet; partitions without the victim keep their leaders.
    const toOthers = unreplicatedTopics(brokers.slice(0, 1));
    expect(await toOthers.leaderOf(`${prefix}${name}`, LED)).toBe(VICTIM);
    expect(sickOf(log)).toEqual([FOLLOWED, LED]);

    process.kill(pid, 'SIGCONT');
    for (const outcome of await outcomes) {
      if (outcome.status === 'rejected') expect(outcome.reason).toBeInstanceOf(Unavailable);
    }
    let tries = 0;
    for (const partition of [FOLLOWED, LED]) {
      await until(() => {
        tries += 1;
        return isTaken(append(partition, `after ${tries}`));
      });
    }
    expect(sickOf(log)).toEqual([]);
    const texts = await textsToEnd(log, name);
    // An append without a response may exist too.
    const answered = texts.map((own, partition) =>
      own.filter((text) => kept[partition]?.includes(text ?? '')),
    );
    expect(answered).toEqual(kept);
  }, 120_000);
}

function isTaken(appended: Promise<void>): Promise<boolean> {
  return appended.then(
    () => true,
    () => false,
  );
}

function sickOf(log: Log): number[] {
  const sick = log.unavailablePartitions?.().filter(({ operation }) => operation === 'append') ?? [];
  return sick.map(({ partition }) => partition).sort();
}
