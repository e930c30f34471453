/** Tests that a failed start of a partition closes its producer. Tests that a new owner fences the previous owner. */
import { aLog } from '@questlog/runtime/log/embedded/testing/testLog';
import type { Log, OwnedPartition } from '@questlog/runtime/log/log';
import { withMethods } from '@questlog/runtime/log/testing/alteredLog';
import { systemClock } from '@questlog/runtime/process/clock';
import { Fenced, Unavailable } from '@questlog/runtime/process/errors';
import { aLinkedEvent } from '@questlog/schemas/fixtures/builders';
import { TOPICS, topicDefinitions } from '@questlog/schemas/topics/topics';
import { expect, test } from 'vitest';
import { openOutbox } from './outbox.ts';
import { partitionDeps } from './testing/partitionDeps.ts';

const isAway = async (): Promise<never> => {
  throw new Unavailable('no broker answers');
};

test.each<[string, Partial<Log>]>([
  ['what was committed', { committed: isAway }],
  ['where a topic begins', { offsetRanges: isAway }],
  ['where the state ends', { endOffset: isAway }],
  ['the state', { tail: isAway }],
])('closes its producer when %s cannot be read', async (_, outage) => {
  const { deps, producers } = await aLinker(outage);
  await expect(openOutbox(aPartition(), deps)).rejects.toBeInstanceOf(Unavailable);
  expect(producers).toEqual({ opened: 1, closed: 1 });
});

test('a restore fails if the changelog is truncated meanwhile, because no other process writes its records again', async () => {
  const { deps, producers } = await aLinker({
    tail: async ({ onTruncated }) => ({
      positions: () => [0],
      waitForOffsets: (_, signal) => {
        const ended = Promise.withResolvers<never>();
        signal?.addEventListener('abort', () => ended.reject(signal.reason));
        void onTruncated?.({ topic: TOPICS.linkerState, partition: 0, offset: 0 });
        return ended.promise;
      },
      failed: new Promise<never>(() => {}),
      close: async () => {},
    }),
  });
  await expect(openOutbox(aPartition(), deps)).rejects.toBeInstanceOf(Unavailable);
  expect(producers).toEqual({ opened: 1, closed: 1 });
});

test('closes its producer if the partition is lost during a stalled restore', async () => {
  const lost = new AbortController();
  const waiting = Promise.withResolvers<void>();
  const { deps, producers } = await aLinker({
    tail: async () => ({
      positions: () => [0],
      waitForOffsets: (_, signal) => {
        waiting.resolve();
        return new Promise((_, reject) => {
          signal?.addEventListener('abort', () => reject(signal.reason));
        });
      },
      failed: new Promise<never>(() => {}),
      close: async () => {},
    }),
  });
  const opening = openOutbox(aPartition(lost.signal), deps);
  await waiting.promise;
  lost.abort(new Error('the partition is lost'));
  await expect(opening).rejects.toThrow('the partition is lost');
  expect(producers).toEqual({ opened: 1, closed: 1 });
});

test('keeps its producer open until the outbox is closed', async () => {
  const { deps, producers } = await aLinker({});
  const outbox = await openOutbox(aPartition(), deps);
  expect(producers).toEqual({ opened: 1, closed: 0 });
  await outbox.close();
  expect(producers).toEqual({ opened: 1, closed: 1 });
});

test('shows no open reports of a partition that it has lost', async () => {
  const { deps } = await aLinker({});
  const outbox = await openOutbox(aPartition(), deps);
  outbox.advance(TOPICS.events, 1);
  await outbox.commit();
  const { openReports, openReportEventIds } = deps.metrics;
  const partitions = async () =>
    (await Promise.all([openReports.get(), openReportEventIds.get()])).flatMap(({ values }) =>
      values.map(({ labels }) => labels.partition),
    );
  expect(await partitions()).toEqual([0, 0]);
  await outbox.close();
  expect(await partitions()).toEqual([]);
});

test('a new owner fences the previous owner, which can no longer commit links', async () => {
  const { deps } = await aLinker({});
  const older = await openOutbox(aPartition(), deps);
  older.put({ links: [aLinkedEvent()], notices: [], changes: [] });
  const newer = await openOutbox(aPartition(), deps);
  await expect(older.commit()).rejects.toBeInstanceOf(Fenced);
  expect(await deps.log.endOffsets(TOPICS.linkedEvents)).toEqual([0]);
  newer.put({ links: [aLinkedEvent()], notices: [], changes: [] });
  await newer.commit();
  expect(newer.committed.links).toBe(1);
  await Promise.all([older.close(), newer.close()]);
});

test('after a truncation, the next run restores the known epoch with the position', async () => {
  const { deps } = await aLinker({});
  const first = await openOutbox(aPartition(), deps);
  first.advance(TOPICS.events, 5, 3);
  first.advance(TOPICS.reportLinks, 4, 7);
  first.onTruncated({ topic: TOPICS.events, partition: 0, offset: 2 });
  first.onTruncated({ topic: TOPICS.reportLinks, partition: 0, offset: 3 });
  // A second truncation happens before any record is read after the first truncation.
  first.onTruncated({ topic: TOPICS.events, partition: 0, offset: 1 });
  await first.commit();
  // The record before the position may have an older epoch, so no lookup may require the newer epoch.
  expect(first.committed).toMatchObject({ events: 1, eventsEpoch: null, reportLinksEpoch: null });
  await first.close();

  const sought: unknown[] = [];
  const next = await openOutbox({ ...aPartition(), seek: (...place) => void sought.push(place) }, deps);
  expect(sought).toEqual([
    [TOPICS.events, 1, undefined, 3],
    [TOPICS.reportLinks, 3, undefined, 7],
  ]);
  expect(next.committed).toMatchObject({ events: 1, eventsEpoch: null, reportLinksEpoch: null });
  await next.close();
});

/**
 * Returns a linker on a log with one partition and a simulated failure. Group offsets are not stored, because there is no group
 * member.
 */
async function aLinker(outage: Partial<Log>) {
  const log = await aLog({ clock: systemClock });
  await log.ensureTopics(topicDefinitions(1));
  const producers = { opened: 0, closed: 0 };
  const failing = withMethods(log, {
    ...outage,
    transactionalProducer: async (id) => {
      const producer = await log.transactionalProducer(id);
      producers.opened += 1;
      return {
        commit: ({ appends }) => producer.commit({ appends, commits: [] }),
        close: async () => {
          producers.closed += 1;
          await producer.close();
        },
      };
    },
  });
  return { deps: { ...(await partitionDeps(log)), log: failing }, producers };
}

/** Returns an assigned partition whose records are not read. */
function aPartition(signal = new AbortController().signal): OwnedPartition {
  const positions = new Map<string, number>([[TOPICS.events, 0]]);
  return {
    partition: 0,
    signal,
    committed: () => undefined,
    position: (topic) => positions.get(topic) ?? 0,
    seek: (topic, offset) => void positions.set(topic, offset),
    read: async () => undefined,
    commit: async () => {},
  };
}
