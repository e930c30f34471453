/** Producers whose brokers respond as a test specifies. */
import { onTestFinished } from 'vitest';
import { silentLogger } from '../../../process/logger.ts';
import { kafkaClient } from '../client/kafkaClient.ts';
import { startWireBroker, type WireBroker, type WireBrokerOptions } from '../testing/wireBroker.ts';
import { Producers, type ProducersDeps } from './producers.ts';

export const TOPIC = 'topic';

export interface WireProducers {
  readonly broker: WireBroker;
  readonly producers: Producers;
  /** Sends one record. By default, its value is the partition. */
  send(partition: number, ...values: readonly string[]): Promise<number>;
}

type ProducersLimits = Pick<ProducersDeps, 'sendLimitMs' | 'sharedWaitMs'>;

/** @param produce returns the response to a batch. The topic has three partitions. */
export async function wireProducers(
  produce: WireBrokerOptions['produce'],
  { sendLimitMs = 10_000, sharedWaitMs, ...options }: Partial<WireBrokerOptions & ProducersLimits> = {},
): Promise<WireProducers> {
  const broker = await startWireBroker({ topic: TOPIC, partitions: 3, produce, ...options });
  const kafka = kafkaClient({ brokers: [broker.address], clientId: 'questlog-tests' }, silentLogger);
  const producers = new Producers({ kafka, logger: silentLogger, sendLimitMs, sharedWaitMs });
  onTestFinished(async () => {
    await broker.close();
    // Does not wait, because the brokers may be gone.
    void producers.close();
  });
  return {
    broker,
    producers,
    send: (partition, ...values) => {
      const records = (values.length === 0 ? ['value'] : values).map((value) => ({
        ...{ key: 'key', value: Buffer.from(value) },
      }));
      return producers.send({ topic: TOPIC, partition, records });
    },
  };
}
