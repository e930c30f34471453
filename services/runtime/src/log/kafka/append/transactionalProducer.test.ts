/** What becomes of a transaction whose outcome is not known, and of a producer that is initialised too late. */
import type { Kafka, Producer, Transaction } from 'kafkajs';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { Unavailable } from '../../../process/errors.ts';
import { openTransactionalProducer } from './transactionalProducer.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const APPEND = { appends: [{ topic: 't', partition: 0, records: [{ key: 'k', value: Buffer.from('v') }] }] };

test('a send that is still under way is not overtaken by an abort', async () => {
  const { deps, done } = aKafka({ send: () => new Promise(() => undefined) });
  const producer = await openTransactionalProducer(deps, 'id');
  const committed = expect(producer.commit(APPEND)).rejects.toBeInstanceOf(Unavailable);
  await vi.advanceTimersByTimeAsync(12_000);
  await committed;
  // Behind an abort the send would begin a transaction that nobody ends.
  expect(done).toEqual(['disconnect']);
  await expect(producer.commit(APPEND)).rejects.toThrow('a new producer must be opened');
});

test('what is all there and does not commit is aborted at once', async () => {
  const { deps, done } = aKafka({ commit: () => Promise.reject(new Error('refused')) });
  const producer = await openTransactionalProducer(deps, 'id');
  await expect(producer.commit(APPEND)).rejects.toThrow('refused');
  expect(done).toEqual(['abort', 'disconnect']);
});

test('a producer that is initialised too late is disconnected once it is through', async () => {
  const late = Promise.withResolvers<void>();
  const { deps, done } = aKafka({ initialised: late.promise });
  const opened = expect(openTransactionalProducer(deps, 'id')).rejects.toThrow('cannot be initialised');
  await vi.advanceTimersByTimeAsync(12_000);
  await opened;
  // It would connect again.
  expect(done).toEqual([]);
  late.resolve();
  await vi.waitUntil(() => done.length > 0);
  expect(done).toEqual(['disconnect']);
});

function aKafka({
  initialised = Promise.resolve(),
  ...steps
}: Partial<Pick<Transaction, 'send' | 'commit'>> & { readonly initialised?: Promise<void> }) {
  const done: string[] = [];
  const transaction = {
    send: async () => [{ topicName: 'p-t', partition: 0, errorCode: 0, baseOffset: '0' }],
    isActive: () => true,
    abort: async () => void done.push('abort'),
    ...steps,
  };
  const producer = {
    connect: async () => undefined,
    disconnect: async () => void done.push('disconnect'),
    transaction: async () => {
      await initialised;
      return transaction;
    },
  };
  // Of a client, a transactional producer uses no more than this.
  const kafka = { producer: () => producer as unknown as Producer } as unknown as Kafka;
  const limits = { topic: 't', partitions: 1, maxBatchBytes: 1_000_000, isCompacted: false };
  const nobody = async () => Promise.reject(new Error('not asked for'));
  const catalog = {
    ...{ ranges: nobody, committed: nobody, partitionsThere: nobody, forget: () => undefined },
    limits: async () => limits,
  };
  return { deps: { kafka, catalog, nameOf: (name: string) => `p-${name}` }, done };
}
