/** Against a broker that answers one request of a connection after the other, as Kafka does: a sick partition is alone. */
import { expect, test } from 'vitest';
import { Unavailable } from '../../../process/errors.ts';
import { wireProducers } from './wireProducers.testing.ts';

const SICK = 0;
const NOT_ENOUGH_REPLICAS = 19;
const KAFKA_STORAGE_ERROR = 56;

test('an append whose replicas do not answer holds up no other partition of its broker', async () => {
  const replicas = Promise.withResolvers<number>();
  const { send } = await wireProducers(({ partition }) => (partition === SICK ? replicas.promise : 0));
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
    const { broker, send } = await wireProducers(
      ({ partition }) => (partition === SICK && isSick ? errorCode : 0),
      { sendLimitMs: 1000 },
    );
    expect(await send(1)).toBe(0);
    await expect(send(SICK)).rejects.toBeInstanceOf(Unavailable);
    const before = broker.producerIds();
    expect(await send(1)).toBe(1);
    expect(broker.producerIds()).toBe(before);
    isSick = false;
    // What follows the failed send has a producer of its own: the broker's count of sequences may be another.
    // One of its tries may still be taken.
    const offset = await send(SICK);
    expect(offset).toBe(broker.values(SICK).length - 1);
    expect(broker.producerIds()).toBe(before + 1);
  },
);
