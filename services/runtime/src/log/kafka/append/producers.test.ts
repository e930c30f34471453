/** Acknowledged records are in the log once and in order. A producer with an unknown outcome is never used again. */
import { randomBytes } from 'node:crypto';
import { Socket } from 'node:net';
import { expect, onTestFinished, test, vi } from 'vitest';
import { Unavailable } from '../../../process/errors.ts';
import { type Outcome, type Produced, produceAnswer } from '../testing/wireBroker.ts';
import { nextSequence } from './producerRequests.ts';
import { TOPIC, wireProducers } from './wireProducers.testing.ts';

const UNKNOWN_TOPIC_OR_PARTITION = 3;
const LEADER_NOT_AVAILABLE = 5;
const NOT_LEADER = 6;
const REQUEST_TIMED_OUT = 7;
const MESSAGE_TOO_LARGE = 10;
const NOT_ENOUGH_REPLICAS = 19;
const NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20;
const TOPIC_AUTHORIZATION_FAILED = 29;
const OUT_OF_ORDER_SEQUENCE_NUMBER = 45;
const DUPLICATE_SEQUENCE_NUMBER = 46;
const INVALID_PRODUCER_EPOCH = 47;
const UNKNOWN_PRODUCER_ID = 59;

test('returns the offset of the brokers and uses one producer per partition', async () => {
  const { broker, send } = await wireProducers(() => 0);
  expect(await send(0, 'a', 'b')).toBe(0);
  expect(await send(0, 'c')).toBe(2);
  expect(await send(1, 'd')).toBe(0);
  expect(broker.values(0)).toEqual(['a', 'b', 'c']);
  expect(broker.producerIds()).toBe(2);
});

test('concurrent sends have different offsets and are all stored (platformatic/kafka#326)', async () => {
  const { broker, send } = await wireProducers(() => 0);
  const values = Array.from({ length: 50 }, (_, index) => `${index}`);
  expect(await Promise.all(values.map((value) => send(0, value)))).toEqual(values.map(Number));
  expect(broker.values(0)).toEqual(values);
  expect(broker.producerIds()).toBe(1);
});

test.each<[string, Outcome]>([
  ['is rejected because the leader moved', NOT_LEADER],
  ['is rejected because no broker leads', LEADER_NOT_AVAILABLE],
  ['is rejected because too few replicas are in sync', NOT_ENOUGH_REPLICAS],
  ['is rejected because the topic is new', UNKNOWN_TOPIC_OR_PARTITION],
  ['is appended with too few replicas', NOT_ENOUGH_REPLICAS_AFTER_APPEND],
  ['is appended while the replicas are late', REQUEST_TIMED_OUT],
  ['is appended before the connection breaks', 'cut'],
])('a send that %s is retried unchanged and appended once', async (_, outcome) => {
  const requested: Produced[] = [];
  const { broker, send } = await wireProducers((produced) => {
    requested.push(produced);
    return requested.length === 2 || requested.length === 3 ? outcome : 0;
  });
  expect(await send(0, 'before')).toBe(0);
  expect(await send(0, 'a', 'b')).toBe(1);
  expect(await send(0, 'after')).toBe(3);
  expect(broker.values(0)).toEqual(['before', 'a', 'b', 'after']);
  expect(requested.map(({ producerId, sequence }) => [Number(producerId), sequence])).toEqual([
    ...[0, 1, 1, 1, 3].map((sequence) => [1, sequence]),
  ]);
});

test('a late attempt sends a complete batch, although an earlier success has freed it', async () => {
  const written = vi.spyOn(Socket.prototype, 'write');
  onTestFinished(() => written.mockRestore());
  let tries = 0;
  const { send } = await wireProducers(() => (++tries === 1 ? 'cut' : 0));
  const value = randomBytes(100_000).toString('hex');
  expect(await send(0, value)).toBe(0);

  const lengths = written.mock.calls.map(([bytes]) => Buffer.byteLength(bytes));
  expect(lengths.filter((length) => length > value.length / 2)).toHaveLength(2);
});

test('a batch that the old leader appended without a response is not duplicated by the next leader (librdkafka#4953)', async () => {
  let leader = 1;
  const { broker, send } = await wireProducers(
    ({ values }) => {
      if (leader === 2 || values[0] !== 'unanswered') return 0;
      leader = 2;
      return 'cut';
    },
    { brokers: 2, leader: () => leader },
  );
  expect(await send(0, 'before')).toBe(0);
  expect(await send(0, 'unanswered')).toBe(1);
  expect(await send(0, 'after')).toBe(2);
  expect(broker.values(0)).toEqual(['before', 'unanswered', 'after']);
  expect(broker.producerIds()).toBe(1);
});

test.each([
  OUT_OF_ORDER_SEQUENCE_NUMBER,
  DUPLICATE_SEQUENCE_NUMBER,
  INVALID_PRODUCER_EPOCH,
  UNKNOWN_PRODUCER_ID,
  MESSAGE_TOO_LARGE,
])('a response of %i is not an acknowledgement, and the next send has a new producer', async (errorCode) => {
  let sent = 0;
  const { broker, send } = await wireProducers(() => (++sent === 2 ? errorCode : 0));
  await send(0);
  await expect(send(0)).rejects.toMatchObject({
    name: 'Unavailable',
    message: expect.stringContaining('outcome is unknown'),
  });
  expect(sent).toBe(2);
  expect(await send(0)).toBe(1);
  expect(broker.producerIds()).toBe(2);
});

test('a rejected batch is an error and is not retried', async () => {
  let sent = 0;
  const { send } = await wireProducers(() => {
    sent += 1;
    return TOPIC_AUTHORIZATION_FAILED;
  });
  const rejected = send(0);
  await expect(rejected).rejects.toThrow('Not authorized');
  await expect(rejected).rejects.not.toBeInstanceOf(Unavailable);
  expect(sent).toBe(1);
});

test.each<[string, Buffer]>([
  // tulios/kafkajs#1798
  ['names no partition', Buffer.from('00000000' + '00000000', 'hex')],
  ['names another partition', produceAnswer(TOPIC, 1, 0, 7)],
  ['names another topic', produceAnswer('other', 0, 0, 7)],
  ['is truncated', produceAnswer(TOPIC, 0, 0, 7).subarray(0, -9)],
  ['has no offset', produceAnswer(TOPIC, 0, 0, -1)],
])('ignores a response that %s and replaces the producer', async (_, answer) => {
  let sent = 0;
  const { broker, send } = await wireProducers(() => (++sent === 1 ? answer : 0));
  await expect(send(0, 'a')).rejects.toBeInstanceOf(Unavailable);
  expect(await send(0, 'b')).toBe(1);
  expect(broker.producerIds()).toBe(2);
});

test('sequences wrap around as in the brokers', () => {
  expect(nextSequence(2 ** 31 - 3, 2)).toBe(2 ** 31 - 1);
  expect(nextSequence(2 ** 31 - 3, 3)).toBe(0);
  expect(nextSequence(2 ** 31 - 1, 10_000)).toBe(9999);
});

test('offsets are exact beyond 32 bits', async () => {
  const { send } = await wireProducers(() => produceAnswer(TOPIC, 0, 0, 2 ** 53 - 1));
  expect(await send(0)).toBe(2 ** 53 - 1);
});

test('abandons a send without a response and does not retry it', async () => {
  let sent = 0;
  const silence = Promise.withResolvers<Outcome>();
  const { broker, send } = await wireProducers(
    () => {
      sent += 1;
      return sent === 1 ? silence.promise : 0;
    },
    { sendLimitMs: 1000 },
  );
  await expect(send(0, 'late')).rejects.toMatchObject({
    name: 'Unavailable',
    message: expect.stringContaining('outcome is unknown'),
  });
  expect(await send(0, 'next')).toBe(0);
  silence.resolve(NOT_LEADER);
  expect(await send(0, 'last')).toBe(1);
  expect(broker.values(0)).toEqual(['next', 'last']);
  expect(broker.producerIds()).toBe(2);
});

test('a send before an outage of all brokers has an unknown outcome', async () => {
  let away: Promise<void> | undefined;
  const { broker, send } = await wireProducers(
    () => {
      away = broker.close();
      return 'cut';
    },
    { sendLimitMs: 1000 },
  );
  await expect(send(0, 'taken')).rejects.toMatchObject({
    name: 'Unavailable',
    message: expect.stringContaining('outcome is unknown'),
  });
  await away;
  expect(broker.values(0)).toEqual(['taken']);
});

test('waits for running sends when it closes and rejects later ones', async () => {
  const requested = Promise.withResolvers<void>();
  const gate = Promise.withResolvers<Outcome>();
  const { producers, send } = await wireProducers(() => {
    requested.resolve();
    return gate.promise;
  });
  const running = send(0);
  await requested.promise;
  let isClosed = false;
  const closing = producers.close().then(() => {
    isClosed = true;
  });
  await expect(send(0)).rejects.toThrow('nothing was done');
  expect(isClosed).toBe(false);
  gate.resolve(0);
  expect(await running).toBe(0);
  await closing;
});
