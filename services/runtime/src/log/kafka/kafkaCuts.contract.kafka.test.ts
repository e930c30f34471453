/** The log on Kafka against the contract of a log that lost its end: a broker is killed, and starts with less. */
import { afterAll, describe } from 'vitest';
import { silentLogger } from '../../process/logger.ts';
import { describeCuts } from '../contract/cuts.contract.ts';
import { describeLogContract } from '../log.contract.ts';
import { withMethods } from '../testing/withMethods.ts';
import { openKafkaLog } from './kafkaLog.ts';
import { startFragileBroker } from './testing/fragileBroker.ts';

const PREFIX = 'contract-';
const nameOf = (name: string) => PREFIX + name;
const broker = await startFragileBroker({ isBeside: true });

describe.runIf(broker !== undefined)('brokers whose files can be changed', () => {
  afterAll(() => broker?.stop());
  if (broker === undefined) return;
  const harness = {
    open: async () => {
      const connection = { brokers: broker.address.split(','), clientId: 'questlog-contract' };
      const log = await openKafkaLog({
        ...{ connection, prefix: PREFIX },
        ...{ replicationFactor: 1, logger: silentLogger },
      });
      return withMethods(log, {
        ensureTopics: async (specs) => {
          await log.ensureTopics(specs);
          for (const { name } of specs) await broker.claim(nameOf(name));
        },
      });
    },
    cut: (_: unknown, topic: string, partition: number, offset: number) =>
      broker.cut(nameOf(topic), partition, offset),
    dispose: async () => undefined,
  };
  describeLogContract('the log on Kafka', harness, [describeCuts]);
});
