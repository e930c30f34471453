/** Each request of a transaction is sent once, to the current coordinator or leader. Harmful duplicates are not sent. */
import { expect, onTestFinished, test } from 'vitest';
import { silentLogger } from '../../../process/logger.ts';
import { kafkaClient } from '../client/kafkaClient.ts';
import {
  type CoordinatorStep,
  type Outcome,
  startWireBroker,
  type WireBroker,
  type WireBrokerOptions,
} from '../testing/wireBroker.ts';
import { type GroupOffsets, type TransactionSteps, transactionSteps } from './transactionSteps.ts';

const NOT_LEADER = 6;
const NOT_COORDINATOR = 16;
const COORDINATOR_NOT_AVAILABLE = 15;
const INVALID_PRODUCER_EPOCH = 47;
const CONCURRENT_TRANSACTIONS = 51;
const TOPIC = 'topic';
const MOVED: GroupOffsets = {
  group: 'group',
  topics: [{ topic: TOPIC, partitions: [{ partition: 0, offset: '7', metadata: '' }] }],
};
const STEPS = ['addPartitions', 'addOffsets', 'commitOffsets', 'commit'] as const;

test('sends each request once and looks up each coordinator once', async () => {
  const { broker, steps } = await wireSteps();
  for (const value of ['a', 'b', 'c']) await transaction(steps, value);
  expect(broker.values(0)).toEqual(['a', 'b', 'c']);
  expect(broker.requested).toEqual([
    'find',
    ...['addPartitions', 'addOffsets', 'find', 'commitOffsets', 'commit'],
    ...STEPS,
    ...STEPS,
  ]);
  expect(broker.producerIds()).toBe(1);
});

test.each(STEPS)('%s waits for the previous transaction without a new lookup', async (waiting) => {
  let refusals = 5;
  const { broker, steps } = await wireSteps({
    coordinate: (step) => (step === waiting && refusals-- > 0 ? CONCURRENT_TRANSACTIONS : 0),
  });
  await transaction(steps, 'a');
  expect(countOf(broker, waiting)).toBe(6);
  expect(countOf(broker, 'find')).toBe(2);
});

test.each(
  STEPS.flatMap((step) => [NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE].map((code) => [step, code] as const)),
)('%s that is refused with %i is taken after another look-up', async (rejected, code) => {
  let refusals = 1;
  const { broker, steps } = await wireSteps({
    coordinate: (step) => (step === rejected && refusals-- > 0 ? code : 0),
  });
  await transaction(steps, 'a');
  expect(countOf(broker, rejected)).toBe(2);
  expect(countOf(broker, 'find')).toBeGreaterThan(2);
});

test('sends to the current coordinator', async () => {
  let coordinator = 1;
  const { broker, steps } = await wireSteps({ brokers: 2, coordinator: () => coordinator });
  await transaction(steps, 'a');
  coordinator = 2;
  await transaction(steps, 'b');
  expect(broker.values(0)).toEqual(['a', 'b']);
});

test.each(STEPS)('%s without a response is not retried', async (lost) => {
  const { broker, steps } = await wireSteps({ coordinate: (step) => (step === lost ? 'cut' : 0) });
  await expect(transaction(steps, 'a')).rejects.toThrow('Closed connection');
  expect(countOf(broker, lost)).toBe(1);
});

test.each<[string, Outcome]>([
  ['is rejected because the leader moved', NOT_LEADER],
  ['is appended before the connection breaks', 'cut'],
])('a send that %s is retried unchanged and appended once', async (_, outcome) => {
  let sent = 0;
  const { broker, steps } = await wireSteps({ produce: () => (++sent === 2 ? outcome : 0) });
  for (const value of ['a', 'b', 'c']) await transaction(steps, value);
  expect(broker.values(0)).toEqual(['a', 'b', 'c']);
  expect(sent).toBe(4);
});

test('a fenced request is not retried', async () => {
  const { broker, steps } = await wireSteps({
    coordinate: (step) => (step === 'commit' ? INVALID_PRODUCER_EPOCH : 0),
  });
  await expect(transaction(steps, 'a')).rejects.toMatchObject({ type: 'INVALID_PRODUCER_EPOCH' });
  expect(countOf(broker, 'commit')).toBe(1);
});

function countOf(broker: WireBroker, step: CoordinatorStep): number {
  return broker.requested.filter((requested) => requested === step).length;
}

/** Runs a transaction with one record and the offsets of a group. */
async function transaction(steps: TransactionSteps, value: string): Promise<void> {
  const deadlineMs = performance.now() + 10_000;
  const send = { topic: TOPIC, partition: 0, records: [{ key: null, value: Buffer.from(value) }] };
  await steps.begin([send], deadlineMs);
  await steps.send(send, deadlineMs);
  await steps.beginOffsets(MOVED, deadlineMs);
  await steps.commitOffsets(MOVED, deadlineMs);
  await steps.end('commit', deadlineMs);
}

async function wireSteps(options: Partial<WireBrokerOptions> = {}) {
  const broker = await startWireBroker({ topic: TOPIC, partitions: 1, produce: () => 0, ...options });
  const kafka = kafkaClient({ brokers: [broker.address], clientId: 'questlog-tests' }, silentLogger);
  const steps = transactionSteps(kafka, { id: 'producer', timeoutMs: 15_000 });
  onTestFinished(async () => {
    await broker.close();
    // The close is not awaited, because the brokers may have stopped.
    void steps.close();
  });
  await steps.initialize(performance.now() + 10_000);
  return { broker, steps };
}
