/** Producers for tests. A test specifies the responses of their brokers. */
import { onTestFinished } from 'vitest';
import { silentLogger } from '../../../process/logger.ts';
import { kafkaClient } from '../client/kafkaClient.ts';
import { startWireBroker, type WireBroker, type WireBrokerOptions } from '../testing/wireBroker.ts';
import { Producers } from './producers.ts';

export const TOPIC = 'topic';

export interface WireProducers {
  readonly broker: WireBroker;
  readonly producers: Producers;
  /** Sends a batch of `values` to the partition. By default, sends one record whose value is the partition. */
  send(partition: number, ...values: readonly string[]): Promise<number>;
}

type ProducersLimits = { readonly sendLimitMs: number; readonly sharedWaitMs: number };

/**
 * Creates producers for a topic with three partitions.
 * @param produce a function that returns the response to a batch.
 */
export async function wireProducers(
  produce: WireBrokerOptions['produce'],
  { sendLimitMs = 10_000, sharedWaitMs, ...options }: Partial<WireBrokerOptions & ProducersLimits> = {},
): Promise<WireProducers> {
  const broker = await startWireBroker({ topic: TOPIC, partitions: 3, produce, ...options });
  const kafka = kafkaClient({ brokers: [broker.address], clientId: 'questlog-tests' }, silentLogger);
  const producers = new Producers(kafka, silentLogger, sendLimitMs, sharedWaitMs);
  onTestFinished(async () => {
    await broker.close();
    // The close is not awaited, because the brokers may have stopped.
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
