/** Runs the truncation contract against Kafka. A broker is killed and restarts with fewer records. */
import { afterAll, describe } from 'vitest';
import { silentLogger } from '../../process/logger.ts';
import { describeTruncation } from '../contract/truncation.contract.ts';
import { describeLogContract } from '../log.contract.ts';
import { withMethods } from '../testing/alteredLog.ts';
import { openKafkaLog } from './kafkaLog.ts';
import { startDamageableBroker } from './testing/damageableBroker.ts';

const PREFIX = 'contract-';
const nameOf = (name: string) => PREFIX + name;
const broker = await startDamageableBroker({ hasSecondBroker: true });

describe.runIf(broker !== undefined)('brokers with truncated files', () => {
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
          for (const { name } of specs) await broker.takeOver(nameOf(name));
        },
      });
    },
    truncate: (_: unknown, topic: string, partition: number, offset: number) =>
      broker.truncate(nameOf(topic), partition, offset),
    dispose: async () => undefined,
  };
  describeLogContract('the log on Kafka', harness, [describeTruncation]);
});
