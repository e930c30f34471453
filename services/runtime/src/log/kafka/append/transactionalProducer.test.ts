/** A transaction can fail at any step. The tests check the transaction and its producer. */
import { createRequire } from 'node:module';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { Fenced, Unavailable } from '../../../process/errors.ts';
import { KafkaTransactionalProducer } from './transactionalProducer.ts';
import type { TransactionSteps } from './transactionSteps.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const APPEND = { appends: [{ topic: 't', partition: 0, records: [{ key: 'k', value: Buffer.from('v') }] }] };
const COORDINATOR_NOT_AVAILABLE = 15;
const INVALID_PRODUCER_EPOCH = 47;
const { createErrorFromCode } = createRequire(import.meta.url)('kafkajs/src/protocol/error');

test('sends its requests in order', async () => {
  const { producer, done } = aProducer();
  expect(await producer.commit(APPEND)).toEqual([{ baseOffset: 3 }]);
  expect(done).toEqual(['begin', 'send', 'commit']);
});

test('an empty transaction sends no request', async () => {
  const { producer, done } = aProducer();
  expect(await producer.commit({ appends: [] })).toEqual([]);
  expect(done).toEqual([]);
});

test.each(['begin', 'send', 'end'] as const)(
  '%s that is still under way is not overtaken by an abort',
  async (step) => {
    const { producer, done } = aProducer({ [step]: () => new Promise(() => undefined) });
    const committed = expect(producer.commit(APPEND)).rejects.toBeInstanceOf(Unavailable);
    await vi.advanceTimersByTimeAsync(12_000);
    await committed;
    // There is no abort, because a late request after the abort would start a transaction that never ends.
    expect(done.slice(-1)).toEqual(['close']);
    expect(done).not.toContain('abort');
    await expect(producer.commit(APPEND)).rejects.toThrow('a new producer must be opened');
  },
);

test.each(['begin', 'end'] as const)('a lost %s is not followed by an abort', async (step) => {
  const { producer, done } = aProducer({ [step]: () => Promise.reject(new Error('Closed connection')) });
  await expect(producer.commit(APPEND)).rejects.toThrow('Closed connection');
  expect(done).not.toContain('abort');
});

test('a failed send, which may still be in progress, is not followed by an abort', async () => {
  const { producer, done } = aProducer({ send: rejected(COORDINATOR_NOT_AVAILABLE) });
  await expect(producer.commit(APPEND)).rejects.toBeInstanceOf(Unavailable);
  expect(done).toEqual(['begin', 'close']);
});

test('a transaction whose commit is rejected is aborted at once', async () => {
  let ends = 0;
  const { producer, done } = aProducer({
    end: async (outcome) => {
      done.push(outcome);
      if (++ends === 1) await rejected(COORDINATOR_NOT_AVAILABLE)();
    },
  });
  await expect(producer.commit(APPEND)).rejects.toBeInstanceOf(Unavailable);
  expect(done).toEqual(['begin', 'send', 'commit', 'abort', 'close']);
});

test.each(['begin', 'send', 'end'] as const)('stays fenced after the response to %s', async (step) => {
  const { producer } = aProducer({ [step]: rejected(INVALID_PRODUCER_EPOCH) });
  await expect(producer.commit(APPEND)).rejects.toBeInstanceOf(Fenced);
  await expect(producer.commit(APPEND)).rejects.toBeInstanceOf(Fenced);
});

function rejected(code: number): () => Promise<never> {
  return () => Promise.reject(createErrorFromCode(code));
}

function aProducer(own: Partial<TransactionSteps> = {}) {
  const done: string[] = [];
  const took = (step: string) => async () => void done.push(step);
  const steps: TransactionSteps = {
    initialize: took('initialise'),
    begin: took('begin'),
    send: async () => {
      done.push('send');
      return 3;
    },
    beginOffsets: took('beginOffsets'),
    commitOffsets: took('commitOffsets'),
    end: async (outcome) => void done.push(outcome),
    close: took('close'),
    ...own,
  };
  const limits = { topic: 't', partitions: 1, maxBatchBytes: 1_000_000, isCompacted: false };
  const unexpectedCall = async () => Promise.reject(new Error('unexpected call'));
  const catalog = {
    ...{
      ranges: unexpectedCall,
      committed: unexpectedCall,
      actualPartitionCounts: unexpectedCall,
      evict: () => undefined,
    },
    limits: async () => limits,
  };
  const deps = { catalog, nameOf: (name: string) => `p-${name}` };
  return { producer: new KafkaTransactionalProducer(deps, 'p-id', steps), done };
}
