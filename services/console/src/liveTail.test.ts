/**
 * Tests that subscribers receive new events and the number of skipped records. The tail must close after the last subscriber
 * leaves.
 */
import { randomUUID } from 'node:crypto';
import { aLog, topicSpec } from '@questlog/runtime/log/embedded/testing/testLog';
import type { Log, NewRecord } from '@questlog/runtime/log/log';
import { Invalid, Unavailable } from '@questlog/runtime/process/errors';
import { silentLogger } from '@questlog/runtime/process/logger';
import { stopsInTime } from '@questlog/runtime/process/testing/stopsInTime';
import type { Codec } from '@questlog/runtime/registry/registry';
import { anEventsRecord } from '@questlog/schemas/fixtures/builders';
import type { AcceptedEvent } from '@questlog/schemas/topics/eventsAccepted';
import type { EventsRecord } from '@questlog/schemas/topics/eventsRecord';
import { TOPICS } from '@questlog/schemas/topics/topics';
import { expect, test } from 'vitest';
import { LiveTail, MAX_SUBSCRIBERS, matches, type Subscriber, type TailFilter } from './liveTail.ts';

const [ONE, OTHER] = [randomUUID(), randomUUID()];

test('a subscriber receives the new events of its tenant, and an unreadable record is skipped', async () => {
  const { log, tail } = await createTail();
  await append(log, [ONE, 'before']);
  const all = createSubscriber(null);
  const own = createSubscriber(ONE);
  await tail.subscribe(all);
  await tail.subscribe(own);
  await append(log, [ONE, 'a'], [OTHER, 'b'], [ONE, 'unreadable'], [ONE, 'c']);
  await expect.poll(() => all.seen).toEqual(['a', 'b', 'c']);
  expect(own.seen).toEqual(['a', 'c']);
  tail.unsubscribe(own);
  await append(log, [ONE, 'd']);
  await expect.poll(() => all.seen).toEqual(['a', 'b', 'c', 'd']);
  expect(own.seen).toEqual(['a', 'c']);
});

test('records beyond the budget are counted as skipped', async () => {
  const { log, tail, passTime } = await createTail();
  const subscribers = [createSubscriber(null), createSubscriber(null)];
  for (const subscriber of subscribers) await tail.subscribe(subscriber);
  const long = 'x'.repeat(50 * 1024);
  const sixLong = () => append(log, ...Array.from({ length: 6 }, (): [string, string] => [ONE, long]));
  const figures = () => subscribers.map(({ seen, passed }) => [seen.length, passed]);
  await sixLong();
  await expect.poll(figures).toEqual([
    [2, 4],
    [2, 4],
  ]);
  passTime(1_000);
  await sixLong();
  await expect.poll(figures).toEqual([
    [4, 8],
    [4, 8],
  ]);
});

test('a long record is parsed for one subscriber, and the next record for another', async () => {
  const { log, tail, passTime } = await createTail();
  const subscribers = Array.from({ length: 3 }, () =>
    Object.assign(createSubscriber(null), { parsesPayloads: true }),
  );
  const plain = createSubscriber(null);
  for (const subscriber of [...subscribers, plain]) await tail.subscribe(subscriber);
  const long = 'x'.repeat(200 * 1024);
  const figures = () => [...subscribers, plain].map(({ seen, passed }) => `${seen.length} ${passed}`);
  await append(log, [ONE, long]);
  await expect.poll(figures).toEqual(['1 0', '0 1', '0 1', '1 0']);
  passTime(1_000);
  await append(log, [ONE, long]);
  await expect.poll(figures).toEqual(['1 1', '1 1', '0 2', '2 0']);
});

test('all subscribers share one tail, which closes when the last one leaves', async () => {
  const { log, tail, tails } = await createTail();
  const subscribers = [createSubscriber(null), createSubscriber(null)];
  for (const subscriber of subscribers) await tail.subscribe(subscriber);
  expect(tails).toEqual({ opened: 1, closed: 0 });
  for (const subscriber of subscribers) tail.unsubscribe(subscriber);
  await expect.poll(() => tails).toEqual({ opened: 1, closed: 1 });
  const again = createSubscriber(null);
  await tail.subscribe(again);
  await append(log, [ONE, 'a']);
  await expect.poll(() => again.seen).toEqual(['a']);
  await tail.close();
  expect([again.hasEnded, tails]).toEqual([true, { opened: 2, closed: 2 }]);
  await expect(tail.subscribe(createSubscriber(null))).rejects.toThrow(Unavailable);
});

test('close() does not wait for a log that does not respond', async () => {
  const { tail, silence } = await createTail();
  const silent = Promise.withResolvers<void>();
  silence.ends = silent.promise;
  const joining = tail.subscribe(createSubscriber(null));
  expect(await stopsInTime(() => tail.close())).toBe(true);
  silent.resolve();
  await joining;
});

test('a failure to open the tail is reported to the subscriber, and the next subscriber tries again', async () => {
  const { tail, breakNext } = await createTail();
  breakNext();
  await expect(tail.subscribe(createSubscriber(null))).rejects.toThrow('no broker');
  await tail.subscribe(createSubscriber(null));
});

test(`rejects more than ${MAX_SUBSCRIBERS} subscribers, and accepts a new one after others leave`, async () => {
  const { tail } = await createTail();
  const subscribers = Array.from({ length: MAX_SUBSCRIBERS }, () => createSubscriber(null));
  for (const subscriber of subscribers) await tail.subscribe(subscriber);
  await expect(tail.subscribe(createSubscriber(null))).rejects.toThrow('live tails');
  for (const subscriber of subscribers.slice(1)) tail.unsubscribe(subscriber);
  await tail.subscribe(createSubscriber(null));
});

test.each<[Partial<TailFilter>, string, boolean]>([
  [{}, '{}', true],
  [{ eventType: 'jump' }, '{}', true],
  [{ eventType: 'fall' }, '{}', false],
  [{ sessionIds: new Set([ONE]) }, '{}', true],
  [{ sessionIds: new Set([OTHER]) }, '{}', false],
  [{ where: { path: ['at', 'level'], value: '3' } }, '{"at":{"level":3}}', true],
  [{ where: { path: ['at'], value: '{"level":3}' } }, '{"at":{"level":3}}', true],
  [{ where: { path: ['at', 'level'], value: '3' } }, '{"at":null}', false],
  [{ where: { path: ['constructor'], value: 'x' } }, '{}', false],
  [{ where: { path: ['on'], value: 'false' } }, '{"on":false}', true],
])('the filter %o matches the payload %s: %s', (asked, payload, isMatch) => {
  const filter = { projectId: null, eventType: null, sessionIds: null, where: null, ...asked };
  expect(matches(filter, createEvent('jump', payload))).toBe(isMatch);
});

/**
 * Creates a tail with a simple codec. The codec decodes a text into a record with one event, and uses the text as the type of
 * the event.
 */
async function createTail() {
  const log = await aLog();
  await log.ensureTopics([topicSpec(TOPICS.events)]);
  const tails = { opened: 0, closed: 0 };
  let isBroken = false;
  const silence: { ends?: Promise<void> } = {};
  /** Current time of the tail in milliseconds. Only the test advances this time. */
  let nowMs = 0;
  const watched: Log = Object.create(log, {
    tail: {
      value: async (options: Parameters<Log['tail']>[0]) => {
        if (isBroken) {
          isBroken = false;
          throw new Unavailable('no broker');
        }
        tails.opened += 1;
        const open = await log.tail(options);
        return Object.create(open, {
          failed: { value: open.failed },
          close: {
            value: async () => {
              await open.close();
              tails.closed += 1;
            },
          },
        });
      },
    },
    endOffsets: {
      value: async (topic: string) => {
        await silence.ends;
        return await log.endOffsets(topic);
      },
    },
  });
  const codec: Codec<EventsRecord> = {
    encode: () => Buffer.alloc(0),
    decode: (value) => {
      const eventType = String(value);
      if (eventType === 'unreadable') throw new Invalid('no record');
      return anEventsRecord({ events: [{ eventType }] });
    },
  };
  const tail = new LiveTail({ log: watched, codec, logger: silentLogger, nowMs: () => nowMs });
  return {
    ...{ log, tail, tails, silence },
    breakNext: () => {
      isBroken = true;
    },
    passTime: (ms: number) => {
      nowMs += ms;
    },
  };
}

function createEvent(eventType: string, payload: string): AcceptedEvent {
  const nothing = { buildId: null, occurredAt: 0n, overQuota: false, sequence: null };
  return { ...nothing, id: randomUUID(), sessionId: ONE, eventType, payload: Buffer.from(payload) };
}

function createSubscriber(tenantId: string | null) {
  const subscriber = {
    tenantId,
    parsesPayloads: false,
    seen: [] as string[],
    passed: 0,
    hasEnded: false,
    receive: (record: EventsRecord) => void subscriber.seen.push(record.eventType(0)),
    skip: () => {
      subscriber.passed += 1;
    },
    end: () => {
      subscriber.hasEnded = true;
    },
  } satisfies Subscriber & Record<string, unknown>;
  return subscriber;
}

/** Appends one record for each pair. The record contains one event of the given type. */
async function append(log: Log, ...records: [tenantId: string, eventType: string][]): Promise<void> {
  const made = records.map(([key, eventType]): NewRecord => ({ key, value: Buffer.from(eventType) }));
  await log.append(TOPICS.events, 0, made);
}
