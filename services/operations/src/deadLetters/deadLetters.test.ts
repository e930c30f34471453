/** Tests dead letters on the embedded log. Operators use several ingests. */
import { randomUUID } from 'node:crypto';
import { openDeadLetters } from '@questlog/runtime/consumer/deadLetters';
import { readNewestFirst } from '@questlog/runtime/http/core/newestFirst';
import { aLog, ManualClock } from '@questlog/runtime/log/embedded/testing/testLog';
import type { Log, LogRecord } from '@questlog/runtime/log/log';
import { withMethods } from '@questlog/runtime/log/testing/alteredLog';
import { Invalid, Unavailable } from '@questlog/runtime/process/errors';
import { createHealth } from '@questlog/runtime/process/health';
import { silentLogger } from '@questlog/runtime/process/logger';
import { openLogRegistry } from '@questlog/runtime/registry/logRegistry';
import { createCodec } from '@questlog/runtime/registry/registry';
import { ErasedData } from '@questlog/schemas/erased';
import { anErasure, anEventsAccepted, aReportLink } from '@questlog/schemas/fixtures/builders';
import { partitionOf } from '@questlog/schemas/partition';
import { deadLetter } from '@questlog/schemas/topics/deadLetter';
import type { Erasure } from '@questlog/schemas/topics/directoryEntry';
import { eventsAccepted } from '@questlog/schemas/topics/eventsAccepted';
import { APPEND_ID_HEADER, GROUPS, TOPICS, topicDefinitions } from '@questlog/schemas/topics/topics';
import { expect, onTestFinished, test } from 'vitest';
import type { DeadLetterFilters } from './deadLetterIndex.ts';
import { openDeadLetterAdmin } from './deadLetters.ts';

const PARTITIONS = 3;
const EVERY: DeadLetterFilters = {
  state: 'open',
  group: undefined,
  topic: undefined,
  cause: undefined,
  fromMs: undefined,
  toMs: undefined,
};

async function aDeployment() {
  const clock = new ManualClock();
  const log = await aLog({ clock });
  await log.ensureTopics(topicDefinitions(PARTITIONS));
  const registry = await openLogRegistry(log);
  const codec = await createCodec(registry, eventsAccepted);
  const opened = new Map<string, number>();
  const metrics = {
    deadLettersOpen: {
      set: ({ group }: { group: string }, n: number) => void opened.set(group, n),
      reset: () => opened.clear(),
    },
  };
  const erased = new ErasedData();
  const health = createHealth();
  const ingest = async (on: Log = log) => {
    const deps = { log: on, registry, health, logger: silentLogger, metrics: metrics as never };
    const knowing = { ...deps, visible: { cached: erased, latest: async () => erased } };
    const deadLetterAdmin = await openDeadLetterAdmin(knowing);
    onTestFinished(() => deadLetterAdmin.close());
    const list = async (filters: Partial<DeadLetterFilters> = {}, limit = '100', cursor?: string) =>
      await deadLetterAdmin.page({ ...EVERY, ...filters }, readNewestFirst({ limit, cursor }));
    return { ...deadLetterAdmin, list };
  };
  return {
    ...{ log, registry, clock, codec, opened, ingest, erased },
    warned: async () => (await health.state()).warnings['dead_letters'],
    /** Appends a dead letter. @returns its id. */
    append: async (
      of: Partial<LogRecord> = {},
      at: { topic?: string; partition?: number } = {},
      why = 'a test',
    ) => {
      const { topic = TOPICS.events, partition = 1 } = at;
      const deps = { log, registry, clock, logger: silentLogger, group: GROUPS.projectEvents };
      const send = (await openDeadLetters(deps))(new AbortController().signal);
      clock.nowMs += 1;
      const record = {
        offset: clock.nowMs,
        timestampMs: 0,
        key: 'a tenant',
        value: Buffer.from('x'),
        headers: {},
      };
      await send.send({ topic, partition }, { ...record, ...of }, new Invalid(why), false);
      const asked = await ingest();
      return (await asked.list()).deadLetters[0]?.id ?? '';
    },
    recordsOf: async (topic: string) => {
      const found: (LogRecord & { partition: number })[] = [];
      const tail = await log.tail({
        topic,
        from: 'earliest',
        onBatch: ({ partition, records }) =>
          void found.push(...records.map((one) => ({ ...one, partition }))),
      });
      await tail.waitForOffsets(await log.endOffsets(topic));
      await tail.close();
      return found;
    },
  };
}

test('lists open dead letters, the newest first, by group, topic, cause, and time, in pages', async () => {
  const { log, clock, append, ingest, opened, warned } = await aDeployment();
  const beganMs = clock.nowMs;
  const first = await append({}, { partition: 0 }, 'no such schema');
  const second = await append({}, { topic: TOPICS.sessions, partition: 2 }, 'refused by ClickHouse');
  const third = await append();
  // Appends two records that are no dead letters. They must not stop the reader.
  const headers = { [APPEND_ID_HEADER]: randomUUID() };
  await log.append(TOPICS.deadLetters, 0, [{ key: null, value: Buffer.from('foreign'), headers }]);
  const { list } = await ingest();
  // The warning exists before the first request.
  await expect.poll(warned).toBe('3 dead letters are open: run "questlog dead-letters list"');
  const ids = async (filters: Partial<DeadLetterFilters>) =>
    (await list(filters)).deadLetters.map(({ id }) => id);

  expect(await ids({})).toEqual([third, second, first]);
  expect(await ids({ cause: 'such schema' })).toEqual([first]);
  expect(await ids({ topic: TOPICS.sessions })).toEqual([second]);
  expect(await ids({ group: GROUPS.link })).toEqual([]);
  expect(await ids({ fromMs: beganMs + 2, toMs: beganMs + 3 })).toEqual([second]);
  const page = await list({}, '2');
  expect(page).toMatchObject({ deadLetters: [{ id: third }, { id: second }], open: 3 });
  expect(await list({}, '2', page.next ?? '')).toMatchObject({ deadLetters: [{ id: first }], next: null });
  expect(opened.get(GROUPS.projectEvents)).toBe(3);
});

test('reports 0 for groups without dead letters, and nothing while its reader has failed', async () => {
  const { log, ingest, opened } = await aDeployment();
  const [first, second] = [Promise.withResolvers<never>(), Promise.withResolvers<void>()];
  let readers = 0;
  const tail: typeof log.tail = async (of) => {
    readers += 1;
    if (readers === 1) return withMethods(await log.tail(of), { failed: first.promise });
    await second.promise;
    return await log.tail(of);
  };
  await ingest(withMethods(log, { tail }));
  await expect.poll(() => opened.get(GROUPS.link)).toBe(0);
  first.reject(new Unavailable('the log does not answer'));
  await expect.poll(() => [...opened]).toEqual([]);
  second.resolve();
  await expect.poll(() => opened.get(GROUPS.link)).toBe(0);
});

test('shows a record as decoded by the schema of its topic, or shows its bytes', async () => {
  const { codec, append, ingest } = await aDeployment();
  const message = anEventsAccepted({ events: [{ payload: Buffer.from('{"n":1}') }] });
  const readable = await append({ value: codec.encode(message), headers: { a: '1' } }, {}, 'r'.repeat(500));
  const garbage = await append({ value: Buffer.from([0, 1, 255]) });
  const { inspect, list } = await ingest();

  expect(await inspect(readable)).toMatchObject({
    ...{ id: readable, state: 'open', key: 'a tenant', headers: { a: '1' }, reason: 'r'.repeat(500) },
    value: {
      ...{ appendId: message.appendId, receivedAt: message.receivedAt },
      events: [{ payload: '{"n":1}', occurredAt: Number(message.events[0]?.occurredAt) }],
    },
  });
  expect((await list()).deadLetters[1]?.reason).toBe('r'.repeat(300));
  const shown = await inspect(garbage);
  expect(shown).toMatchObject({ valueBytes: 3, valueBase64: Buffer.from([0, 1, 255]).toString('base64') });
  expect(shown).not.toHaveProperty('value');
  await expect(inspect(randomUUID())).rejects.toMatchObject({ code: 'not_found' });
});

test('a replay appends the unchanged record to its source partition once, at whichever ingest it is requested', async () => {
  const { append, ingest, recordsOf, opened, warned } = await aDeployment();
  const [here, there] = [await ingest(), await ingest()];
  const headers = { [APPEND_ID_HEADER]: 'its own' };
  const value = Buffer.from('a record');
  const id = await append({ value, headers }, { partition: 2 });
  const answers = await Promise.allSettled([here.replay(id), here.replay(id)]);

  expect(answers.map(({ status }) => status)).toEqual(['fulfilled', 'rejected']);
  const [again, ...more] = await recordsOf(TOPICS.events);
  expect(more).toEqual([]);
  expect(again).toMatchObject({ partition: 2, key: 'a tenant', value, headers });
  await expect(there.replay(id)).rejects.toMatchObject({ code: 'already_decided' });
  await expect(there.discard(id)).rejects.toMatchObject({ code: 'already_decided' });
  expect((await there.list()).deadLetters).toEqual([]);
  expect((await there.list({ state: 'replayed' })).deadLetters).toMatchObject([{ id, state: 'replayed' }]);
  expect(opened.get(GROUPS.projectEvents)).toBe(0);
  await expect.poll(warned).toBeUndefined();
});

test('replays a record of a partition that does not exist at the home partition of its key', async () => {
  const { append, ingest, recordsOf } = await aDeployment();
  const key = aReportLink().tenantId;
  const { replay } = await ingest();
  await replay(await append({ key }, { topic: TOPICS.reportLinks, partition: PARTITIONS }));
  expect(await recordsOf(TOPICS.reportLinks)).toMatchObject([{ partition: partitionOf(key, 0, PARTITIONS) }]);
});

test('a dead letter stays open if its decision was not written, and its next replay appends the record again', async () => {
  const { log, append, ingest, recordsOf } = await aDeployment();
  let isAway = true;
  const { replay } = await ingest(
    withMethods(log, {
      append: async (topic, partition, records) => {
        if (topic === TOPICS.deadLetters && isAway) throw new Unavailable('the log is away');
        return await log.append(topic, partition, records);
      },
    }),
  );
  const id = await append({ headers: { [APPEND_ID_HEADER]: 'its own' } });
  await expect(replay(id)).rejects.toThrow('away');
  isAway = false;
  await replay(id);
  const [first, second] = await recordsOf(TOPICS.events);
  // Consumers recognize the second record as a duplicate by its append id.
  expect({ ...second, offset: 0, timestampMs: 0 }).toEqual({ ...first, offset: 0, timestampMs: 0 });
});

test('rejects the replay of a dead letter without a value or with a topic that is not replayable, and keeps the dead letter open', async () => {
  const { append, ingest, recordsOf } = await aDeployment();
  const gone = await append({ value: null });
  const large = await append({ value: Buffer.alloc(2 * 1024 * 1024) }, { topic: TOPICS.sessions });
  const foreign = await append({}, { topic: TOPICS.directory });
  const { replay, list } = await ingest();
  for (const id of [gone, large, foreign])
    await expect(replay(id)).rejects.toMatchObject({ code: 'not_replayable' });
  expect((await list()).open).toBe(3);
  expect(await recordsOf(TOPICS.sessions)).toEqual([]);
});

test('rejects the replay of a dead letter with a negative partition', async () => {
  const { log, registry, clock, ingest, recordsOf } = await aDeployment();
  const deadLetterAdmin = await createCodec(registry, deadLetter);
  const source = { sourceTopic: TOPICS.events, sourcePartition: -1, sourceOffset: 0, group: GROUPS.link };
  const content = { key: null, value: Buffer.from('x'), headers: {}, reason: 'made', deadAt: clock.nowMs };
  const id = randomUUID();
  const value = deadLetterAdmin.encode({ logId: log.id, ...source, ...content });
  await log.append(TOPICS.deadLetters, 0, [{ key: null, value, headers: { [APPEND_ID_HEADER]: id } }]);
  const { replay } = await ingest();
  await expect(replay(id)).rejects.toMatchObject({
    code: 'not_replayable',
    message: `${TOPICS.events} has no partition -1`,
  });
  expect(await recordsOf(TOPICS.events)).toEqual([]);
});

test('a discarded dead letter is closed; discarding it again succeeds, replaying it fails', async () => {
  const { append, ingest, recordsOf } = await aDeployment();
  const id = await append();
  const { discard, replay, list, inspect } = await ingest();
  await discard(id);
  await discard(id);
  expect(await list()).toMatchObject({ deadLetters: [], open: 0 });
  expect(await inspect(id)).toMatchObject({ state: 'discarded', decidedAt: expect.any(String) });
  await expect(replay(id)).rejects.toMatchObject({ code: 'already_decided' });
  expect(await recordsOf(TOPICS.events)).toEqual([]);
  await expect(discard(randomUUID())).rejects.toMatchObject({ code: 'not_found' });
});

test('discards the dead letters of an erasure, also if one of them has expired since it was listed', async () => {
  const { log, clock, append, ingest } = await aDeployment();
  const key = randomUUID();
  const [expired] = [await append({ key }), await append({ key })];
  const without: Log['tail'] = ({ onBatch, ...options }) =>
    log.tail({
      ...options,
      onBatch: (batch) => {
        const isOfOne = options.partitions !== undefined;
        const left = batch.records.filter(({ headers }) => headers[APPEND_ID_HEADER] !== expired);
        return onBatch(isOfOne ? { ...batch, records: left } : batch);
      },
    });
  const { discardHidden, list } = await ingest(withMethods(log, { tail: without }));
  expect(await discardHidden(erasedBy({ tenantId: key, requestedAt: clock.nowMs + 1 }))).toBe(1);
  expect((await list()).deadLetters).toMatchObject([{ id: expired }]);
});

function erasedBy(of: Partial<Erasure>): ErasedData {
  const erased = new ErasedData();
  erased.add(anErasure(of));
  return erased;
}

test('an erasure covers a dead letter if all of its data is erased, for every key', async () => {
  const { codec, append, ingest } = await aDeployment();
  const [tenantId, projectId, gone] = [randomUUID(), randomUUID(), randomUUID()];
  const deadLetter = async (key: string | null, ...sessions: string[]) => {
    const events = sessions.map((sessionId) => ({ sessionId }));
    return await append({ key, value: codec.encode(anEventsAccepted({ tenantId, projectId, events })) });
  };
  const [keyed, foreign] = [
    await deadLetter(tenantId, gone, gone),
    await deadLetter('a key of its own', gone),
  ];
  const keyless = await deadLetter(null, gone);
  const [mixed, other] = [
    await deadLetter(tenantId, gone, randomUUID()),
    await deadLetter(tenantId, randomUUID()),
  ];
  const { discardHidden, list } = await ingest();
  const sessions = [{ projectId, ids: [gone] }];
  expect(await discardHidden(erasedBy({ tenantId, projectId, sessions }))).toBe(3);
  const ids = async (state: DeadLetterFilters['state']) =>
    (await list({ state })).deadLetters.map(({ id }) => id).sort();
  expect(await ids('discarded')).toEqual([keyed, foreign, keyless].sort());
  // `mixed` stays open, because a replay appends its events that were not erased.
  expect(await ids('open')).toEqual([mixed, other].sort());
});

test('never shows erased data, also of decided dead letters', async () => {
  const { codec, clock, append, ingest, erased } = await aDeployment();
  const [tenantId, projectId, gone] = [randomUUID(), randomUUID(), randomUUID()];
  const aValue = (...events: { sessionId: string; payload: Buffer }[]) =>
    codec.encode(anEventsAccepted({ tenantId, projectId, events }));
  const ownDeadLetter = (payload = Buffer.from('{"its":"secret"}')) => ({ sessionId: gone, payload });
  const others = { sessionId: randomUUID(), payload: Buffer.from('{"of":"others"}') };
  const { inspect, discard, replay } = await ingest();
  const [discarded, replayed] = [
    await append({ value: aValue(ownDeadLetter()) }),
    await append({ value: aValue(ownDeadLetter()) }),
  ];
  const lateDeadLetter = await append({ value: aValue(ownDeadLetter()) });
  await discard(discarded);
  await replay(replayed);
  const mixed = await append({ value: aValue(ownDeadLetter(), others) });
  const large = await append({ value: aValue(ownDeadLetter(Buffer.alloc(1024 * 1024, 's')), others) });
  const [whole, since] = [await append({ key: tenantId }), await append({ key: tenantId })];
  erased.add(anErasure({ tenantId, projectId, sessions: [{ projectId, ids: [gone] }] }));

  for (const id of [discarded, replayed, lateDeadLetter])
    await expect(inspect(id)).rejects.toMatchObject({
      code: 'not_found',
      message: expect.stringContaining('was erased'),
    });
  expect(await inspect(mixed)).toMatchObject({ value: { events: [{ payload: '{"of":"others"}' }] } });
  const shown = await inspect(large);
  expect([shown.value, shown.valueBase64]).toEqual([undefined, undefined]);
  // A record that does not decode belongs to the tenant in its key.
  erased.add(anErasure({ tenantId, requestedAt: clock.nowMs }));
  await expect(inspect(whole)).rejects.toThrow('was erased');
  expect(await inspect(since)).toMatchObject({ valueBase64: expect.any(String) });
});
