/** Tests sessions and reports after truncations of the log, while ingest runs or before it starts. */
import { randomUUID } from 'node:crypto';
import type { Store } from '@questlog/runtime/clickhouse/store';
import { until } from '@questlog/runtime/log/contract/harness';
import type { EmbeddedExtras } from '@questlog/runtime/log/embedded/embeddedLog';
import { aLog } from '@questlog/runtime/log/embedded/testing/testLog';
import type { Log } from '@questlog/runtime/log/log';
import type { ProjectionProgress } from '@questlog/runtime/log/projection/projection';
import { withMethods } from '@questlog/runtime/log/testing/alteredLog';
import type { TruncatedRange } from '@questlog/runtime/log/truncation/participants';
import { systemClock } from '@questlog/runtime/process/clock';
import { Unavailable } from '@questlog/runtime/process/errors';
import { silentLogger } from '@questlog/runtime/process/logger';
import { yieldToEventLoop } from '@questlog/runtime/process/waiting';
import { openLogRegistry } from '@questlog/runtime/registry/logRegistry';
import { createCodec } from '@questlog/runtime/registry/registry';
import { aReportLink, aSession } from '@questlog/schemas/fixtures/builders';
import { reportTimeOf } from '@questlog/schemas/reportWindow';
import {
  contentDigest,
  type SessionRegistered,
  sessionRegistered,
} from '@questlog/schemas/topics/sessionRegistered';
import { TOPICS, topicDefinitions } from '@questlog/schemas/topics/topics';
import { expect, onTestFinished, test } from 'vitest';
import { openReportCache } from './reportCache.ts';
import { cachedSession, openSessionCache, type SessionCache } from './sessionCache.ts';

const [TENANT, PROJECT] = [randomUUID(), randomUUID()];

function session(of: Partial<SessionRegistered> = {}): SessionRegistered {
  return aSession({ tenantId: TENANT, projectId: PROJECT, ...of });
}

test('restores unprojected sessions that a truncation removed, at every process and in the log', async () => {
  const topic = await aTopic();
  const [one, other] = [await topic.start(), await topic.start()];
  const [kept, ...lost] = [session(), session(), session()];
  for (const each of [kept, ...lost]) await one.sessions.register(each);
  await topic.untilKnown(other, [kept, ...lost]);
  await topic.cut(1);
  // Each process finds the session, or reports that it lags.
  const all = [kept, ...lost];
  do {
    for (const process of [one, other]) expect(await topic.known(process, all)).toEqual(all.map(idOf));
    await yieldToEventLoop();
  } while (one.appendedAgain.length + other.appendedAgain.length < 2);
  expect(one.cuts).toEqual([{ topic: TOPICS.sessions, partition: 0, offset: 1 }]);
  expect(one.appendedAgain).toEqual([2]);
  expect(await topic.known(await topic.start(), [kept, ...lost])).toEqual([kept, ...lost].map(idOf));
  const again = await one.sessions.register(lost[0] ?? kept);
  expect([again.isOwn, again.registered]).toEqual([false, cachedSession(lost[0] ?? kept)]);
});

test('a session that another record registered first is what the log says', async () => {
  const topic = await aTopic();
  const one = await topic.start();
  const [mine, theirs] = [session(), session()];
  const other = { ...theirs, sessionId: mine.sessionId, lane: 7 };
  await one.sessions.register(mine);
  topic.holdAppends();
  await topic.cut(0);
  await topic.append(other);
  await until(() => one.cuts.length > 0);
  topic.letAppend();
  await expect.poll(() => topic.end()).toBe(2);
  const found = await one.sessions.find(TENANT, PROJECT, [mine.sessionId]);
  expect(found.get(mine.sessionId)).toEqual(cachedSession(other));
});

test('waits instead of calling a lost session unknown while the log is unavailable', async () => {
  const topic = await aTopic();
  const one = await topic.start({ waitMs: 50 });
  const [kept, lost] = [session(), session()];
  for (const each of [kept, lost]) await one.sessions.register(each);
  topic.holdAppends();
  await topic.cut(1);
  await until(() => one.cuts.length > 0);
  expect(await topic.known(one, [kept])).toEqual([idOf(kept)]);
  await expect(topic.known(one, [lost])).rejects.toThrow(Unavailable);
  topic.letAppend();
  await expect.poll(() => topic.known(one, [lost]).catch(() => [])).toEqual([idOf(lost)]);
});

test('finds a projected session in ClickHouse although the log has lost it', async () => {
  const topic = await aTopic();
  const one = await topic.start();
  const stored = session();
  await one.sessions.register(stored);
  topic.stored.push(stored);
  await topic.cut(0);
  await until(() => one.cuts.length > 0);
  expect(await topic.known(one, [stored])).toEqual([idOf(stored)]);
  expect(await topic.known(await topic.start(), [stored])).toEqual([idOf(stored)]);
});

test.each([
  ['ends before what was projected', 0],
  ['has grown past what was projected', 4],
])('reads a log from its start that was truncated before this process started and %s', async (_, more) => {
  const topic = await aTopic();
  const before = [session(), session(), session()];
  for (const each of before) await topic.append(each);
  topic.projected = 3;
  topic.last = { offset: 2, id: 'the digest of a lost record' };
  await topic.cut(1);
  const since = Array.from({ length: 1 + more }, () => session());
  for (const each of since) await topic.append(each);
  const one = await topic.start();
  expect(await topic.known(one, since)).toEqual(since.map(idOf));
  expect(one.cuts).toHaveLength(1);
});

test('starts at the last projected record if it is unchanged', async () => {
  const topic = await aTopic();
  const [first, second] = [session(), session()];
  const headers = { 'questlog-append-id': randomUUID() };
  await topic.append(first, headers);
  await topic.append(second);
  topic.projected = 1;
  topic.last = { offset: 0, id: headers['questlog-append-id'] };
  const one = await topic.start();
  expect(one.cuts).toEqual([]);
  // Only ClickHouse could have the first session, but ClickHouse does not have it.
  expect(await topic.known(one, [first, second])).toEqual([idOf(second)]);
});

test('does not wait for the last projected record if retention has removed it', async () => {
  const topic = await aTopic();
  const old = session();
  await topic.append(old);
  topic.projected = 1;
  topic.last = { offset: 0, id: 'removed' };
  topic.stored.push(old);
  topic.startsAt = 1;
  const one = await topic.start();
  expect(one.cuts).toEqual([]);
  expect(await topic.known(one, [old])).toEqual([idOf(old)]);
});

test('appends a linker’s copy again that a truncation removed', async () => {
  const { log, registry } = await topics();
  let again = 0;
  const projection = projectedUpTo(() => 0);
  const deps = { log, registry, projection, clock: systemClock, store: storeOf([]), logger: silentLogger };
  const reports = await openReportCache({ ...deps, onReappended: (_, records) => (again += records) });
  onTestFinished(() => reports.close());
  await reports.append(aReportLink({ tenantId: TENANT, projectId: PROJECT, isForwarded: true }));
  await log.truncate(TOPICS.reportLinks, 0, 0);
  await expect.poll(() => again).toBe(1);
});

test('restores reports and retractions that a truncation removed, with their links', async () => {
  const { log, registry } = await topics();
  const clock = { now: () => report.receivedAt };
  const report = aReportLink({ tenantId: TENANT, projectId: PROJECT, sessionId: randomUUID() });
  const takenBack = aReportLink({ ...report, reportId: randomUUID() });
  const cuts: TruncatedRange[] = [];
  const start = async () => {
    const projection = projectedUpTo(() => 0);
    const deps = { log, registry, projection, clock, store: storeOf([]), logger: silentLogger };
    const reports = await openReportCache({
      ...deps,
      participants: [{ onTruncated: (cut) => void cuts.push(cut) }],
    });
    onTestFinished(() => reports.close());
    return reports;
  };
  const one = await start();
  await one.file(report);
  await one.file(takenBack);
  await one.append({ ...takenBack, kind: 'retracted' });
  await log.truncate(TOPICS.reportLinks, 0, 0);
  await until(() => cuts.length > 0);
  const event = { id: randomUUID(), sessionId: report.sessionId, occurredAt: reportTimeOf(report) };
  for (const reports of [one, await start()]) {
    expect(await reports.find(TENANT, PROJECT, report.reportId)).toMatchObject({ retractedAt: null });
    expect(await reports.find(TENANT, PROJECT, takenBack.reportId)).toMatchObject({
      retractedAt: takenBack.receivedAt,
    });
    expect(reports.reportsOf(PROJECT, event)).toEqual([report.reportId]);
  }
});

interface Started {
  readonly sessions: SessionCache;
  readonly cuts: TruncatedRange[];
  readonly appendedAgain: number[];
}

async function topics(): Promise<{
  log: Log & EmbeddedExtras;
  registry: Awaited<ReturnType<typeof openLogRegistry>>;
}> {
  const log = await aLog();
  await log.ensureTopics(topicDefinitions(1));
  return { log, registry: await openLogRegistry(log) };
}

/** Creates a topic of sessions with one partition, and processes that cache the sessions. */
async function aTopic() {
  const { log, registry } = await topics();
  const codec = await createCodec(registry, sessionRegistered);
  let mayAppend = Promise.resolve();
  let letAppend = (): void => {};
  const held = withMethods(log, {
    append: async (...args) => {
      await mayAppend;
      return await log.append(...args);
    },
    tail: (options) => {
      const { from } = options;
      const there = typeof from === 'string' ? from : from.map((offset) => Math.max(offset, topic.startsAt));
      return log.tail({ ...options, from: there });
    },
  });
  const topic = {
    /** Sessions in ClickHouse. */
    stored: [] as SessionRegistered[],
    /** First offset of the log. Retention has removed earlier records. */
    startsAt: 0,
    projected: 0,
    last: undefined as { offset: number; id: string } | undefined,
    start: async ({ waitMs = 5_000 } = {}): Promise<Started> => {
      const [cuts, appendedAgain]: [TruncatedRange[], number[]] = [[], []];
      const projection = projectedUpTo(
        () => topic.projected,
        () => topic.last,
      );
      const sessions = await openSessionCache({
        ...{
          log: held,
          registry,
          projection,
          logger: silentLogger,
          store: storeOf(topic.stored),
          readTimeoutMs: waitMs,
        },
        participants: [{ onTruncated: (cut) => void cuts.push(cut) }],
        onReappended: (_, records) => void appendedAgain.push(records),
      });
      onTestFinished(async () => {
        letAppend();
        await sessions.close();
      });
      return { sessions, cuts, appendedAgain };
    },
    append: async (record: SessionRegistered, headers = {}) =>
      void (await log.append(TOPICS.sessions, 0, [{ key: TENANT, value: codec.encode(record), headers }])),
    cut: (offset: number) => log.truncate(TOPICS.sessions, 0, offset),
    end: async () => (await log.endOffsets(TOPICS.sessions))[0],
    holdAppends: () => {
      ({ promise: mayAppend, resolve: letAppend } = Promise.withResolvers<void>());
    },
    letAppend: () => letAppend(),
    known: async ({ sessions }: Started, asked: readonly SessionRegistered[]) => {
      const found = await sessions.find(TENANT, PROJECT, asked.map(idOf));
      return asked.map(idOf).filter((id) => found.has(id));
    },
    untilKnown: async (process: Started, asked: readonly SessionRegistered[]) =>
      until(async () => (await topic.known(process, asked)).length === asked.length),
  };
  return topic;
}

function idOf({ sessionId }: SessionRegistered): string {
  return sessionId;
}

function projectedUpTo(
  offset: () => number,
  last: () => { offset: number; id: string } | undefined = () => undefined,
): ProjectionProgress {
  return { caughtUp: async () => {}, projected: async () => [offset()], lastRecords: async () => [last()] };
}

/** Returns a store with these sessions, and without reports. */
function storeOf(sessions: readonly SessionRegistered[]): Store {
  const refuse = (): Promise<never> => Promise.reject(new Error('not asked here'));
  return {
    database: 'questlog',
    query: async <Row>(sql: string): Promise<Row[]> => {
      if (!sql.includes('FROM sessions')) return [];
      return JSON.parse(
        JSON.stringify(
          sessions.map((one) => ({
            ...one,
            contentDigest: contentDigest(one),
            startedAt: one.startedAt === null ? null : String(one.startedAt),
            registeredAt: String(one.registeredAt),
          })),
        ),
      );
    },
    queryRaw: refuse,
    stream: refuse,
    command: refuse,
    insert: refuse,
    insertsEndWithinMs: 0,
    ping: async () => true,
    close: async () => {},
  };
}
