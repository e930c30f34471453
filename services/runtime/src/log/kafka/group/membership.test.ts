import type { Cluster, ConsumerConfig, Kafka } from 'kafkajs';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { silentLogger } from '../../../process/logger.ts';
import { Membership } from './membership.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

test('starts a new session if its coordinator stops responding and ignores the old session', async () => {
  const { kafka, consumers } = silentKafka();
  const reported: string[] = [];
  const membership = new Membership({
    kafka,
    logger: silentLogger,
    group: 'group',
    topics: ['topic'],
    partitions: [0],
    owned: () => [],
    onJoin: (memberId) => reported.push(`${memberId} joins`),
    onHeartbeat: (memberId) => reported.push(`${memberId} is heard`),
    onLost: () => reported.push('lost'),
    onFailed: () => reported.push('failed'),
  });
  await expect.poll(() => consumers[0]?.isRunning).toBe(true);
  consumers[0]?.tell('GROUP_JOIN', { memberId: 'first', memberAssignment: { topic: [0] } });
  await vi.advanceTimersByTimeAsync(20_000);
  consumers[0]?.tell('HEARTBEAT', { memberId: 'first', groupGenerationId: 1 });
  await vi.advanceTimersByTimeAsync(25_000);
  expect(reported).toEqual(['first joins', 'first is heard']);

  await vi.advanceTimersByTimeAsync(10_000);
  await expect.poll(() => consumers[1]?.isRunning).toBe(true);
  consumers[0]?.tell('GROUP_JOIN', { memberId: 'first', memberAssignment: { topic: [0] } });
  consumers[1]?.tell('GROUP_JOIN', { memberId: 'second', memberAssignment: { topic: [0] } });
  expect(reported).toEqual(['first joins', 'first is heard', 'lost', 'second joins']);
  consumers[1]?.leave();
  await membership.close();
});

test('starts a new session if a join gets no response; a member that joins late leaves again', async () => {
  const { kafka, consumers } = silentKafka({ lostJoins: 1 });
  const reported: string[] = [];
  const nothing = () => undefined;
  const membership = new Membership({
    ...{ kafka, logger: silentLogger, group: 'group', topics: ['topic'], partitions: [0], owned: () => [] },
    ...{ onJoin: nothing, onLost: nothing, onFailed: nothing },
    onHeartbeat: (memberId) => reported.push(`${memberId} is heard`),
  });
  await vi.advanceTimersByTimeAsync(35_000);
  await expect.poll(() => consumers[1]?.isRunning).toBe(true);
  // kafkajs cannot leave the group before the join.
  expect(consumers[0]?.disconnects).toBe(0);
  consumers[0]?.join();
  await expect.poll(() => consumers[0]?.disconnects).toBe(1);
  consumers[0]?.tell('HEARTBEAT', { memberId: 'late', groupGenerationId: 1 });
  consumers[1]?.tell('HEARTBEAT', { memberId: 'second', groupGenerationId: 2 });
  expect(reported).toEqual(['second is heard']);
  consumers[1]?.leave();
  await membership.close();
});

test('marks the offsets as committed at each join, so that kafkajs does not fetch them', async () => {
  const { kafka, consumers } = silentKafka();
  const nothing = () => undefined;
  const membership = new Membership({
    ...{
      kafka,
      logger: silentLogger,
      group: 'group',
      topics: ['topic'],
      partitions: [0, 1],
      owned: () => [],
    },
    ...{ onJoin: nothing, onHeartbeat: nothing, onLost: nothing, onFailed: nothing },
  });
  await expect.poll(() => consumers[0]?.isRunning).toBe(true);
  const join = () =>
    consumers[0]?.tell('GROUP_JOIN', { memberId: 'first', memberAssignment: { topic: [0] } });
  const known = [0, 1].map((partition) => ({ groupId: 'group', topic: 'topic', partition, offset: '0' }));
  join();
  // The partitions include partitions of other members, because members in one process share the metadata of kafkajs.
  expect(consumers[0]?.marked).toEqual(known);
  join();
  expect(consumers[0]?.marked).toEqual([...known, ...known]);
  consumers[0]?.leave();
  await membership.close();
});

test('continues after a failed authentication and stops in time without a response to its leave request', async () => {
  const { kafka, consumers } = silentKafka();
  const reported: string[] = [];
  const nothing = () => undefined;
  const membership = new Membership({
    ...{ kafka, logger: silentLogger, group: 'group', topics: ['topic'], partitions: [0], owned: () => [] },
    ...{ onJoin: nothing, onHeartbeat: nothing, onLost: () => reported.push('lost') },
    onFailed: () => reported.push('failed'),
  });
  await expect.poll(() => consumers[0]?.isRunning).toBe(true);
  const error = Object.assign(new Error('Closed connection'), { name: 'KafkaJSSASLAuthenticationError' });
  consumers[0]?.tell('CRASH', { error });
  await vi.advanceTimersByTimeAsync(5_000);
  await expect.poll(() => consumers[1]?.isRunning).toBe(true);
  expect(reported).toEqual(['lost']);
  const closed = membership.close();
  await vi.advanceTimersByTimeAsync(5_000);
  await closed;
});

interface SilentConsumer {
  isRunning: boolean;
  /** Offsets that were marked as committed, in kafkajs's format. */
  readonly marked: object[];
  disconnects: number;
  /** Completes a join that has received no response. */
  join(): void;
  tell(event: string, payload: object): void;
  /** Completes `disconnect`. */
  leave(): void;
}

/**
 * Creates consumers that receive no responses from the brokers after their join. The joins of the first `lostJoins`
 * consumers also get no response.
 */
function silentKafka({ lostJoins = 0 } = {}): { kafka: Kafka; consumers: SilentConsumer[] } {
  const consumers: SilentConsumer[] = [];
  const consumer = ({ partitionAssigners }: ConsumerConfig) => {
    const marked: object[] = [];
    const cluster = {
      findTopicPartitionMetadata: () => [{ partitionId: 0 }, { partitionId: 1 }],
      markOffsetAsCommitted: (at: object) => marked.push(at),
    };
    // The object has only the members of a cluster that a consumer uses if it does not lead the group.
    const config = { cluster: cluster as unknown as Cluster, groupId: 'group', logger: undefined as never };
    for (const assigner of partitionAssigners ?? []) assigner(config);
    const listeners = new Map<string, (event: { payload: object }) => void>();
    const [joined, left] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const one: SilentConsumer = {
      isRunning: false,
      marked,
      disconnects: 0,
      join: joined.resolve,
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
        if (consumers.indexOf(one) < lostJoins) await joined.promise;
        one.isRunning = true;
      },
      disconnect: () => {
        one.disconnects += 1;
        return left.promise;
      },
    };
  };
  // The object has only the members of a client that the membership uses.
  const kafka: Pick<Kafka, never> = { consumer };
  return { kafka: kafka as Kafka, consumers };
}
