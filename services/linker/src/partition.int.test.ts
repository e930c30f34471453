import { randomUUID } from 'node:crypto';
import { readToEnd } from '@questlog/runtime/log/contract/harness';
import { aLog } from '@questlog/runtime/log/embedded/testing/testLog';
import type { Batch, LogRecord, OwnedPartition, Transaction } from '@questlog/runtime/log/log';
import { withMethods } from '@questlog/runtime/log/testing/alteredLog';
import { systemClock } from '@questlog/runtime/process/clock';
import { Unavailable } from '@questlog/runtime/process/errors';
import { silentLogger } from '@questlog/runtime/process/logger';
import { createCodec } from '@questlog/runtime/registry/registry';
import { ErasedData } from '@questlog/schemas/erased';
import {
  anErasure,
  anEventsAccepted,
  anEventsRecord,
  aReportLink,
} from '@questlog/schemas/fixtures/builders';
import { partitionOf } from '@questlog/schemas/partition';
import { deadLetter } from '@questlog/schemas/topics/deadLetter';
import { eventsAccepted } from '@questlog/schemas/topics/eventsAccepted';
import { GROUPS, TOPICS, topicDefinitions } from '@questlog/schemas/topics/topics';
import { expect, onTestFinished, test, vi } from 'vitest';
import { keyOf } from './core/decision.ts';
import { startLinker } from './linker.ts';
import { linkPartition } from './partition.ts';
import { partitionDeps } from './testing/partitionDeps.ts';

test('waits for the registry if an event has a newer schema, without stopping and without skipping it', async () => {
  const log = await aLog({ clock: systemClock });
  await log.ensureTopics(topicDefinitions(1));
  const deps = await partitionDeps(log);
  const own = deps.registry;
  let isAway = false;
  const heard: string[] = [];
  const tell = (event: string): void => void heard.push(event);
  const linker = await startLinker({
    ...deps,
    registry: {
      ...own,
      schemaById: async (id) => {
        if (isAway) throw new Unavailable('the registry is away');
        return await own.schemaById(id);
      },
    },
    logger: { ...silentLogger, warn: tell, error: tell },
  });
  onTestFinished(() => linker.stop());
  let failure: unknown;
  linker.failed.catch((error: unknown) => {
    failure = error;
  });
  const committed = async (): Promise<number> =>
    (await log.committed(GROUPS.link, TOPICS.events))[0]?.offset ?? 0;

  const schema = JSON.stringify({ ...JSON.parse(eventsAccepted.schema), doc: 'the next version' });
  const newer = await createCodec(own, { ...eventsAccepted, schema });
  isAway = true;
  const message = anEventsAccepted();
  await log.append(TOPICS.events, 0, [{ key: message.tenantId, value: newer.encode(message) }]);
  await expect
    .poll(() => failure ?? heard.filter((event) => event === 'linking_delayed').length)
    .toBeGreaterThan(1);
  expect(await committed()).toBe(0);
  isAway = false;
  await expect.poll(committed).toBe(1);
  expect(heard).not.toContain('record_not_linked');
  expect(failure).toBeUndefined();
});

test('commits records without links every 200 ms, also if they arrive individually', async () => {
  vi.useFakeTimers({ toFake: ['performance'] });
  onTestFinished(() => void vi.useRealTimers());
  const log = await aLog({ clock: systemClock });
  await log.ensureTopics(topicDefinitions(1));
  const deps = await partitionDeps(log);
  const commits: Transaction[] = [];
  const commit = async (transaction: Transaction) => {
    commits.push(transaction);
    return [];
  };
  const counting = withMethods(log, {
    transactionalProducer: async () => ({ commit, close: async () => {} }),
  });
  const lost = new AbortController();
  const left = Array.from({ length: 50 }, (_, offset): LogRecord => {
    const value = deps.codecs.events.encode(anEventsRecord());
    return { offset, timestampMs: 0, key: null, value, headers: {} };
  });
  let isQuiet = false;
  const committedBefore: number[] = [];
  const owned: OwnedPartition = {
    partition: 0,
    signal: lost.signal,
    committed: () => undefined,
    position: () => 0,
    seek: () => {},
    commit: async () => {},
    // A short pause follows each record. A long pause follows the last record.
    read: async () => {
      isQuiet = !isQuiet;
      const record = isQuiet ? left.shift() : undefined;
      if (record !== undefined)
        return { topic: TOPICS.events, partition: 0, records: [record], nextOffset: record.offset + 1 };
      if (left.length > 0) return undefined;
      committedBefore.push(commits.length);
      vi.advanceTimersByTime(200);
      if (committedBefore.length > 1) lost.abort();
      return undefined;
    },
  };
  await linkPartition(owned, { ...deps, log: counting });
  expect(committedBefore).toEqual([0, 1]);
  expect(commits[0]?.commits).toMatchObject([{ topic: TOPICS.events, committed: { offset: 50 } }]);
});

test('a truncation moves the linker back to the end of the log, also after a restart', async () => {
  const log = await aLog({ clock: systemClock });
  await log.ensureTopics(topicDefinitions(1));
  const deps = await partitionDeps(log);
  const read: string[] = [];
  const decode: typeof deps.codecs.events.decode = async (value) => {
    const message = await deps.codecs.events.decode(value);
    read.push(message.appendId);
    return message;
  };
  const codecs = { ...deps.codecs, events: { ...deps.codecs.events, decode } };
  const append = async (count: number): Promise<string[]> => {
    const messages = Array.from({ length: count }, () => anEventsRecord());
    const values = messages.map((message) => deps.codecs.events.encode(message));
    await log.append(
      TOPICS.events,
      0,
      values.map((value) => ({ key: null, value })),
    );
    return messages.map(({ appendId }) => appendId);
  };
  const start = () =>
    log.consume({
      group: GROUPS.link,
      topics: [TOPICS.events, TOPICS.reportLinks],
      process: (owned) => linkPartition(owned, { ...deps, codecs }),
    });
  const committed = async () => (await log.committed(GROUPS.link, TOPICS.events))[0]?.offset;

  const first = await start();
  const old = await append(3);
  await expect.poll(committed).toBe(3);
  await log.truncate(TOPICS.events, 0, 1);
  const grown = await append(4);
  await Promise.race([expect.poll(committed).toBe(5), first.failed]);
  await first.stop();
  expect(read).toEqual([...old, ...grown]);

  await log.truncate(TOPICS.events, 0, 2);
  const second = await start();
  await Promise.race([expect.poll(committed).toBe(2), second.failed]);
  await second.stop();
  const later = await append(4);
  const third = await start();
  await Promise.race([expect.poll(committed).toBe(6), third.failed]);
  await third.stop();
  expect(read).toEqual([...old, ...grown, ...later]);
});

test('dead-letters a report in a foreign partition that is too large for its home partition, and forwards the next one', async () => {
  const log = await aLog({ clock: systemClock });
  await log.ensureTopics(topicDefinitions(2));
  const deps = { ...(await partitionDeps(log)), partitions: 2 };
  const tenantId = randomUUID();
  const home = partitionOf(tenantId, 0, 2);
  const commit = async ({ appends }: Transaction) =>
    await Promise.all(appends.map(({ topic, partition, records }) => log.append(topic, partition, records)));
  const lenient = withMethods(log, {
    transactionalProducer: async () => ({ commit, close: async () => {} }),
  });
  // The topic accepts the record, because the record is small after compression.
  const context = Buffer.from(`{"a":"${'x'.repeat(3 * 1024 * 1024)}"}`);
  const content = {
    ...{ title: null, description: null, severity: null, reporterType: null, sourceChannel: null },
    ...{ fingerprint: null, namedSessionId: null, context, attachments: [] },
  };
  const reports = [content, null].map((of) =>
    aReportLink({ tenantId, eventIds: [randomUUID()], content: of }),
  );
  const values = reports.map((report) => deps.codecs.reports.encode(report));
  const records = values.map((value, offset) => ({
    offset,
    timestampMs: 0,
    key: tenantId,
    value,
    headers: {},
  }));
  const lost = new AbortController();
  const batches: Batch[] = [{ topic: TOPICS.reportLinks, partition: 1 - home, records, nextOffset: 2 }];
  const owned: OwnedPartition = {
    partition: 1 - home,
    signal: lost.signal,
    committed: () => undefined,
    position: () => 0,
    seek: () => {},
    commit: async () => {},
    read: async () => {
      const batch = batches.shift();
      if (batch === undefined) lost.abort();
      return batch;
    },
  };
  await linkPartition(owned, { ...deps, log: lenient });
  const told = (await readToEnd(log, TOPICS.reportLinks))[home] ?? [];
  expect(told.map(({ value }) => value)).toEqual([values[1]]);
  const dead = (await readToEnd(log, TOPICS.deadLetters)).flat();
  const letters = await createCodec(deps.registry, deadLetter);
  expect(await Promise.all(dead.map(({ value }) => letters.decode(value)))).toMatchObject([
    {
      group: GROUPS.link,
      sourcePartition: 1 - home,
      sourceOffset: 0,
      reason: expect.stringMatching(/above the limit of 1048576 of/),
    },
  ]);
});

test('an erased report leaves the changelog and gets no more links; another report is unaffected', async () => {
  const log = await aLog({ clock: systemClock });
  await log.ensureTopics(topicDefinitions(1));
  const deps = await partitionDeps(log);
  const reports = [1, 2].map(() => aReportLink({ sessionId: randomUUID(), sessionLane: 0 }));
  const [gone = aReportLink(), stays = aReportLink()] = reports;
  const waitedFor = reports.map((record) => {
    const report = {
      record,
      offset: 0,
      phase: 'open',
      askAt: null,
      closesAt: Date.now() + 3_600_000,
    } as const;
    const none = { retraction: null, late: null, appends: null, position: null, sessionLinks: null };
    return {
      key: `report/${keyOf(record)}`,
      value: deps.codecs.state.encode({ ...none, report }),
      headers: {},
    };
  });
  await log.append(TOPICS.linkerState, 0, waitedFor);
  const erased = new ErasedData();
  const { tenantId, projectId, receivedAt } = gone;
  erased.add(anErasure({ tenantId, projectId, requestedAt: receivedAt + 1 }));
  const linker = await startLinker({ ...deps, visible: { cached: erased, latest: async () => erased } });
  onTestFinished(() => linker.stop());
  const ofIt = async () =>
    (await readToEnd(log, TOPICS.linkerState)).flat().filter(({ key }) => key === `report/${keyOf(gone)}`);
  // The commit must happen without new records.
  await expect.poll(async () => (await ofIt()).at(-1)?.value).toBeNull();

  // Appends new events of the sessions.
  for (const { tenantId: tenant, projectId: project, sessionId } of [gone, stays]) {
    const of = { tenantId: tenant, projectId: project, receivedAt: receivedAt + 2 };
    const value = deps.codecs.events.encode(anEventsRecord({ ...of, events: [{ sessionId }] }));
    await log.append(TOPICS.events, 0, [{ key: tenant, value, headers: {} }]);
  }
  const links = async () => (await readToEnd(log, TOPICS.linkedEvents)).flat();
  await expect.poll(async () => (await links()).length).toBeGreaterThan(0);
  const told = await Promise.all((await links()).map(({ value }) => deps.codecs.links.decode(value)));
  expect(told.map(({ reportId }) => reportId)).toEqual([stays.reportId]);
});
