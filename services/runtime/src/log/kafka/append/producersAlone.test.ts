/**
 * Shared requests to a broker that responds in order, like Kafka. A failing partition uses separate requests, and the other
 * partitions share requests.
 */
import { randomBytes } from 'node:crypto';
import { expect, test } from 'vitest';
import { Unavailable } from '../../../process/errors.ts';
import { sharedAnswer, type WireBrokerOptions } from '../testing/wireBroker.ts';
import { TOPIC, type WireProducers, wireProducers } from './wireProducers.testing.ts';

const SICK = 0;
const NOT_ENOUGH_REPLICAS = 19;
const KAFKA_STORAGE_ERROR = 56;

test('an append without a response of its replicas delays no other partition of its broker', async () => {
  const replicas = Promise.withResolvers<number>();
  const { send } = await wireProducers(({ partition }) => (partition === SICK ? replicas.promise : 0));
  let isOut = true;
  const failing = send(SICK).finally(() => {
    isOut = false;
  });
  for (let round = 0; round < 3; round += 1) {
    expect(await Promise.all([send(1), send(2)])).toEqual([round, round]);
  }
  expect(isOut).toBe(true);
  replicas.resolve(0);
  expect(await failing).toBe(0);
});

test.each([NOT_ENOUGH_REPLICAS, KAFKA_STORAGE_ERROR])(
  'a partition that is rejected with %i keeps the producers of the others',
  async (errorCode) => {
    let isFailing = true;
    const { broker, send } = await wireProducers(
      ({ partition }) => (partition === SICK && isFailing ? errorCode : 0),
      { sendLimitMs: 1000 },
    );
    expect(await send(1)).toBe(0);
    await expect(send(SICK)).rejects.toBeInstanceOf(Unavailable);
    const before = broker.producerIds();
    expect(await send(1)).toBe(1);
    expect(broker.producerIds()).toBe(before);
    isFailing = false;
    // After the failed send, the partition has a new producer. The broker may still append an attempt of the failed send.
    const offset = await send(SICK);
    expect(offset).toBe(broker.values(SICK).length - 1);
    expect(broker.producerIds()).toBe(before + 1);
  },
);

/** Creates producers and sends until the connections of shared requests are open. The first shared request opens them. */
async function together(
  produce: WireBrokerOptions['produce'],
  options: Parameters<typeof wireProducers>[1] = {},
): Promise<WireProducers & { sendAll(...values: readonly string[]): Promise<number[]> }> {
  let isReady = false;
  const wire = await wireProducers((requested) => (isReady ? produce(requested) : 0), options);
  const sendAll = (...values: readonly string[]) =>
    Promise.all([0, 1, 2].map((partition) => wire.send(partition, ...values)));
  const isShared = (partitions: readonly number[]) => partitions.length > 1;
  while (!wire.broker.requests.some(isShared)) await sendAll('first');
  isReady = true;
  return { ...wire, sendAll };
}

test('batches of one turn share a request and get their own offsets', async () => {
  const { broker, send, sendAll } = await together(() => 0);
  const offset = await send(1, 'more');
  const before = broker.requests.length;
  expect(await sendAll('a', 'b')).toEqual([offset, offset + 1, offset]);
  expect(broker.requests.slice(before)).toEqual([[0, 1, 2]]);
  for (const partition of [0, 1, 2]) expect(broker.values(partition).slice(-2)).toEqual(['a', 'b']);
  expect(broker.producerIds()).toBe(3);
});

test('a large batch does not delay small ones', async () => {
  const { broker, send } = await together(() => 0);
  const before = broker.requests.length;
  // The batch is small enough to be compressed in the same turn of the event loop.
  const large = randomBytes(90_000).toString('base64');
  await Promise.all([send(0, large), send(1), send(2)]);
  expect(broker.requests.slice(before).toSorted()).toEqual([[0], [1, 2]]);
});

test('batches of two brokers use a request per broker', async () => {
  const { broker, sendAll } = await together(() => 0, {
    brokers: 2,
    leader: (partition) => (partition === 1 ? 2 : 1),
  });
  const before = broker.requests.length;
  await sendAll('a');
  expect(broker.requests.slice(before).toSorted()).toEqual([[0, 2], [1]]);
});

test('batches that arrive during a request share the next one', async () => {
  const [requested, gate] = [Promise.withResolvers<void>(), Promise.withResolvers<number>()];
  const { broker, send } = await together(({ values }) => {
    if (values[0] !== 'slow') return 0;
    requested.resolve();
    return gate.promise;
  });
  const before = broker.requests.length;
  const first = [send(0, 'slow'), send(1, 'slow')];
  await requested.promise;
  const later = send(2);
  gate.resolve(0);
  const next = Promise.all(first).then(() => Promise.all([send(0), send(1)]));
  await Promise.all([later, next]);
  expect(broker.requests.slice(before)).toEqual([
    [0, 1],
    [2, 0, 1],
  ]);
});

test('after a timeout each batch is sent separately, and waiting batches are sent at once', async () => {
  const requested = Promise.withResolvers<void>();
  const { broker, send } = await together(
    ({ values }) => {
      if (values[0] !== 'lost') return 0;
      requested.resolve();
      return 'silent';
    },
    { sharedWaitMs: 20 },
  );
  const before = broker.requests.length;
  const lost = [send(0, 'lost'), send(1, 'lost')];
  await requested.promise;
  expect(await send(2, 'waits')).toBe(broker.values(2).indexOf('waits'));
  expect(await Promise.all(lost)).toEqual(
    [0, 1].map((partition) => broker.values(partition).indexOf('lost')),
  );
  expect(broker.requests.slice(before)).toEqual([[0, 1], ...['2', '0', '1'].map(() => [expect.any(Number)])]);
  expect(broker.producerIds()).toBe(3);
});

test('other partitions wait once for the replicas of a slow partition', async () => {
  const replicas = Promise.withResolvers<number>();
  let isFailing = true;
  const { broker, send, sendAll } = await together(
    ({ partition }) => (partition === SICK && isFailing ? replicas.promise : 0),
    { sharedWaitMs: 20 },
  );
  let isOut = true;
  const [failing, ...others] = [SICK, 1, 2].map((partition) => send(partition, 'late'));
  void failing?.then(() => {
    isOut = false;
  });
  const [first = 0] = await Promise.all(others);
  const before = broker.requests.length;
  expect(await Promise.all([send(1), send(2)])).toEqual([first + 1, first + 1]);
  expect([isOut, broker.requests.slice(before)]).toEqual([true, [[1, 2]]]);
  isFailing = false;
  replicas.resolve(0);
  expect(await failing).toBe(first);
  // The shared request appended the record. The separate request did not append the record again.
  expect(broker.values(SICK).filter((value) => value === 'late')).toHaveLength(1);
  const behind = broker.requests.length;
  await sendAll('next');
  expect(broker.requests.slice(behind)).toEqual(expect.arrayContaining([[SICK], [1, 2]]));
  expect(broker.producerIds()).toBe(3);
});

test('after a broken shared request each batch is sent separately without duplicates', async () => {
  let cuts = 0;
  const { broker, sendAll } = await together(({ partition }) =>
    partition === 1 && cuts++ === 0 ? 'cut' : 0,
  );
  const before = broker.requests.length;
  const offsets = await sendAll('a');
  expect(broker.requests.slice(before).toSorted()).toEqual([[0], [0, 1, 2], [1], [2]]);
  offsets.forEach((offset, partition) => {
    expect(broker.values(partition).indexOf('a')).toBe(offset);
    expect(broker.values(partition).filter((value) => value === 'a')).toHaveLength(1);
  });
  expect(broker.producerIds()).toBe(3);
});

test.each([
  ['lacks a partition', 2],
  ['has an extra partition', 4],
])('a shared response that %s acknowledges nothing, and each batch is sent again', async (_, partitions) => {
  const answer = sharedAnswer(
    TOPIC,
    Array.from({ length: partitions }, (_, partition) => partition),
  );
  let answers = 0;
  const { broker, sendAll } = await together(({ partition }) =>
    partition === 0 && answers++ === 0 ? answer : 0,
  );
  const offsets = await sendAll('a');
  expect(offsets).toEqual([0, 1, 2].map((partition) => broker.values(partition).indexOf('a')));
});

test('a rejected batch is retried separately, and the others get their offsets', async () => {
  let rejected = 0;
  const { broker, sendAll } = await together(({ partition }) =>
    partition === SICK && rejected++ === 0 ? NOT_ENOUGH_REPLICAS : 0,
  );
  const before = broker.requests.length;
  const offsets = await sendAll('a');
  expect(broker.requests.slice(before)).toEqual([[0, 1, 2], [SICK]]);
  expect(offsets).toEqual([0, 1, 2].map((partition) => broker.values(partition).indexOf('a')));
});
