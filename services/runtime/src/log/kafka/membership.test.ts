import type { Kafka } from 'kafkajs';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { silentLogger } from '../../process/logger.ts';
import { Membership } from './membership.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

test('begins a new session when its coordinator is gone without a word, and hears no more of the old one', async () => {
  const { kafka, consumers } = silentKafka();
  const told: string[] = [];
  const membership = new Membership({
    kafka,
    logger: silentLogger,
    group: 'group',
    topics: ['topic'],
    owned: () => [],
    onJoin: (memberId) => told.push(`${memberId} joins`),
    onHeartbeat: (memberId) => told.push(`${memberId} is heard`),
    onLost: () => told.push('lost'),
    onFailed: () => told.push('failed'),
  });
  await vi.waitUntil(() => consumers[0]?.isRunning === true);
  consumers[0]?.tell('GROUP_JOIN', { memberId: 'first', memberAssignment: { topic: [0] } });
  await vi.advanceTimersByTimeAsync(20_000);
  consumers[0]?.tell('HEARTBEAT', { memberId: 'first', groupGenerationId: 1 });
  await vi.advanceTimersByTimeAsync(25_000);
  expect(told).toEqual(['first joins', 'first is heard']);

  await vi.advanceTimersByTimeAsync(10_000);
  await vi.waitUntil(() => consumers[1]?.isRunning === true);
  consumers[0]?.tell('GROUP_JOIN', { memberId: 'first', memberAssignment: { topic: [0] } });
  consumers[1]?.tell('GROUP_JOIN', { memberId: 'second', memberAssignment: { topic: [0] } });
  expect(told).toEqual(['first joins', 'first is heard', 'lost', 'second joins']);
  consumers[1]?.leave();
  await membership.close();
});

interface SilentConsumer {
  isRunning: boolean;
  tell(event: string, payload: object): void;
  /** What its `disconnect` waits for. */
  leave(): void;
}

/** Its consumers join, and then hear nothing from the brokers, also not when they leave. */
function silentKafka(): { kafka: Kafka; consumers: SilentConsumer[] } {
  const consumers: SilentConsumer[] = [];
  const consumer = () => {
    const listeners = new Map<string, (event: { payload: object }) => void>();
    const left = Promise.withResolvers<void>();
    const one: SilentConsumer = {
      isRunning: false,
      tell: (event, payload) => listeners.get(event)?.({ payload }),
      leave: left.resolve,
    };
    consumers.push(one);
    return {
      events: { CRASH: 'CRASH', GROUP_JOIN: 'GROUP_JOIN', HEARTBEAT: 'HEARTBEAT' },
      on: (event: string, listener: (event: { payload: object }) => void) => listeners.set(event, listener),
      pause: () => undefined,
      connect: async () => undefined,
      subscribe: async () => undefined,
      run: async () => {
        one.isRunning = true;
      },
      disconnect: () => left.promise,
    };
  };
  // Of a client, the membership uses no more than this.
  const kafka: Pick<Kafka, never> = { consumer };
  return { kafka: kafka as Kafka, consumers };
}
