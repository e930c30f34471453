/** Against a broker that answers one request of a connection after the other, as Kafka does: a sick partition is alone. */
import { expect, onTestFinished, test } from 'vitest';
import { Unavailable } from '../../../process/errors.ts';
import { silentLogger } from '../../../process/logger.ts';
import { kafkaClient } from '../client/kafkaClient.ts';
import { startWireBroker } from '../testing/wireBroker.ts';
import { idempotentProducer, Producers } from './producers.ts';

const SICK = 0;
const TOPIC = 'topic';
const NOT_ENOUGH_REPLICAS = 19;
const KAFKA_STORAGE_ERROR = 56;

test('an append whose replicas do not answer holds up no other partition of its broker', async () => {
  const replicas = Promise.withResolvers<number>();
  const { send } = await aBroker((partition) => (partition === SICK ? replicas.promise : 0));
  let isOut = true;
  const sick = send(SICK).finally(() => {
    isOut = false;
  });
  for (let round = 0; round < 3; round += 1) {
    expect(await Promise.all([send(1), send(2)])).toEqual([round, round]);
  }
  expect(isOut).toBe(true);
  replicas.resolve(0);
  expect(await sick).toBe(0);
});

test.each([NOT_ENOUGH_REPLICAS, KAFKA_STORAGE_ERROR])(
  'a partition that is refused with %i takes no producer from the others',
  async (errorCode) => {
    let isSick = true;
    const refuse = (partition: number) => (partition === SICK && isSick ? errorCode : 0);
    const { send, producerIds } = await aBroker(refuse, 200);
    expect(await send(1)).toBe(0);
    await expect(send(SICK)).rejects.toBeInstanceOf(Unavailable);
    const before = producerIds();
    expect(await send(1)).toBe(1);
    expect(producerIds()).toBe(before);
    isSick = false;
    // What follows the failed send has a producer of its own: the broker's count of sequences may be another.
    expect(await send(SICK)).toBe(0);
    expect(producerIds()).toBe(before + 1);
  },
);

async function aBroker(produce: (partition: number) => number | Promise<number>, sendLimitMs = 10_000) {
  const broker = await startWireBroker({ topic: TOPIC, partitions: 3, produce });
  const kafka = kafkaClient({ brokers: [broker.address], clientId: 'questlog-tests' }, silentLogger);
  const create = () => idempotentProducer(kafka);
  const producers = new Producers({ create, logger: silentLogger, sendLimitMs });
  onTestFinished(async () => {
    await producers.close();
    await broker.close();
  });
  const records = [{ key: 'key', value: Buffer.from('value') }];
  return {
    producerIds: broker.producerIds,
    send: (partition: number) => producers.send({ topic: TOPIC, partition, records, bytes: 50 }),
  };
}
