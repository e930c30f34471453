/** A producer in doubt is never used again: otherwise an acknowledgement would be worth nothing. */
import type { Message, Producer, RecordMetadata } from 'kafkajs';
import { expect, test } from 'vitest';
import { Unavailable } from '../../../process/errors.ts';
import { silentLogger } from '../../../process/logger.ts';
import { namedPartition, Producers, type Send } from './producers.ts';

const SEND: Send = {
  topic: 'topic',
  partition: 1,
  records: [{ key: 'k', value: Buffer.from('v') }],
  bytes: 50,
};
const ANSWER = { topicName: 'topic', partition: 1, errorCode: 0, baseOffset: '7' };

test('gives the offset that the brokers answer, by one producer for all sends', async () => {
  const { producers, made } = fakes(() => [ANSWER]);
  expect(await Promise.all([producers.send(SEND), producers.send(SEND)])).toEqual([7, 7]);
  expect(made).toHaveLength(1);
});

test.each<[string, RecordMetadata[]]>([
  ['names no partition', []],
  ['names another partition', [{ ...ANSWER, partition: 0 }]],
  ['names another topic', [{ ...ANSWER, topicName: 'other' }]],
  ['names an error', [{ ...ANSWER, errorCode: 5 }]],
  ['names two partitions', [ANSWER, { ...ANSWER, partition: 2 }]],
  ['has no offset', [{ topicName: 'topic', partition: 1, errorCode: 0 }]],
  ['has an offset of nowhere', [{ ...ANSWER, baseOffset: '-1' }]],
])('takes an answer that %s for none, and replaces the producer', async (_, answer) => {
  const { producers, made } = fakes((sent) => (sent === 1 ? answer : [ANSWER]));
  await expect(producers.send(SEND)).rejects.toBeInstanceOf(Unavailable);
  expect(await producers.send(SEND)).toBe(7);
  expect(made.map(({ sends }) => sends)).toEqual([1, 1]);
});

test('replaces the producer after a rejection, and lets what runs on the old one finish there', async () => {
  const gate = Promise.withResolvers<RecordMetadata[]>();
  const { producers, made } = fakes((sent) => {
    if (sent === 1) return gate.promise;
    if (sent === 2) throw new Error('the broker went away');
    return [ANSWER];
  });
  const running = producers.send(SEND);
  await expect(producers.send(SEND)).rejects.toThrow('outcome is unknown');
  expect(await producers.send(SEND)).toBe(7);
  expect(made.map(({ sends, isConnected }) => ({ sends, isConnected }))).toEqual([
    { sends: 2, isConnected: true },
    { sends: 1, isConnected: true },
  ]);
  gate.resolve([{ ...ANSWER, baseOffset: '3' }]);
  expect(await running).toBe(3);
  await expect.poll(() => made.map(({ isConnected }) => isConnected)).toEqual([false, true]);
});

test('gives up a send without an answer, which is not tried again', async () => {
  const { producers, made } = fakes(() => Promise.withResolvers<RecordMetadata[]>().promise, {
    sendLimitMs: 5,
  });
  await expect(producers.send(SEND)).rejects.toBeInstanceOf(Unavailable);
  const [message] = made[0]?.messages ?? [];
  expect(message).toBeDefined();
  const choose = namedPartition();
  const choice = (given: Message) => choose({ topic: 'topic', partitionMetadata: [], message: given });
  expect(() => choice(message ?? { value: null })).toThrow('given up');
  expect(choice({ value: null, partition: 1 })).toBe(1);
});

test('connects anew after it could not, also by three tries', async () => {
  const { producers, made } = fakes(() => [ANSWER], { connect: (attempt) => attempt > 4 });
  const refused = producers.send(SEND);
  await expect(refused).rejects.toBeInstanceOf(Unavailable);
  await expect(refused).rejects.toThrow('nothing was done');
  expect(await producers.send(SEND)).toBe(7);
  expect(made).toHaveLength(5);
});

test('lets what runs finish before it closes, and takes nothing after', async () => {
  const gate = Promise.withResolvers<RecordMetadata[]>();
  const { producers, made } = fakes(() => gate.promise);
  const running = producers.send(SEND);
  await expect.poll(() => made[0]?.sends).toBe(1);
  const closing = producers.close();
  await expect(producers.send(SEND)).rejects.toBeInstanceOf(Unavailable);
  expect(made[0]?.isConnected).toBe(true);
  gate.resolve([ANSWER]);
  expect(await running).toBe(7);
  await closing;
  expect(made[0]?.isConnected).toBe(false);
});

interface Made {
  sends: number;
  isConnected: boolean;
  readonly messages: Message[];
}

/** `answer` is asked with the number of the send over all producers, from 1. */
function fakes(
  answer: (sent: number) => RecordMetadata[] | Promise<RecordMetadata[]>,
  { sendLimitMs = 10_000, connect = (attempt: number) => attempt > 0 } = {},
) {
  const made: Made[] = [];
  let sent = 0;
  const create = (): Producer => {
    const one: Made = { sends: 0, isConnected: false, messages: [] };
    const attempt = made.push(one);
    const producer: Pick<Producer, 'connect' | 'disconnect' | 'send'> = {
      connect: async () => {
        if (!connect(attempt)) throw new Error('connection refused');
        one.isConnected = true;
      },
      disconnect: async () => {
        one.isConnected = false;
      },
      send: async ({ messages }) => {
        one.sends += 1;
        one.messages.push(...messages);
        sent += 1;
        return answer(sent);
      },
    };
    return producer as Producer;
  };
  return { producers: new Producers({ create, logger: silentLogger, sendLimitMs }), made };
}
