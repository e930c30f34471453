/** Tests that a linker resumes from the position in its changelog, even if the group's offsets are lost or wrong. */
import { randomUUID } from 'node:crypto';
import { openDatabase } from '@questlog/runtime/log/embedded/database';
import { embeddedLogOn } from '@questlog/runtime/log/embedded/embeddedLog';
import { aDirectory } from '@questlog/runtime/log/embedded/testing/testLog';
import { systemClock } from '@questlog/runtime/process/clock';
import { anEventsAccepted, aReportLink } from '@questlog/schemas/fixtures/builders';
import type { EventsAccepted } from '@questlog/schemas/topics/eventsAccepted';
import { recordOf } from '@questlog/schemas/topics/eventsRecord';
import { POSITION_KEY } from '@questlog/schemas/topics/linkerState';
import { GROUPS, TOPICS, topicDefinitions } from '@questlog/schemas/topics/topics';
import { expect, onTestFinished, test } from 'vitest';
import { keyOf } from './core/decision.ts';
import { LINKER_BOUNDS } from './core/linkerState.ts';
import { startLinker } from './linker.ts';
import { partitionDeps } from './testing/partitionDeps.ts';

/** Limits with a small cache of append ids. An older append that is read again would be linked twice. */
const BOUNDS = { ...LINKER_BOUNDS, appends: 4 };

const NO_ENTRY = {
  report: null,
  retraction: null,
  late: null,
  appends: null,
  position: null,
  sessionLinks: null,
};

/** Returns a linker that tests can start and stop. Its log has one open report and events of the report's session. */
async function aLinker() {
  const directory = aDirectory();
  const database = openDatabase(directory);
  const log = embeddedLogOn(database, { directory, clock: systemClock });
  onTestFinished(() => log.close());
  await log.ensureTopics(topicDefinitions(1));
  const deps = { ...(await partitionDeps(log)), bounds: BOUNDS };
  const owner = { tenantId: randomUUID(), projectId: randomUUID() };
  const [sessionId, nowMs] = [randomUUID(), Date.now()];
  const record = aReportLink({ ...owner, sessionId, receivedAt: nowMs });
  const report = { record, offset: 0, phase: 'open', askAt: null, closesAt: nowMs * 2 } as const;
  const append = (topic: string, value: Buffer | null, key: string = owner.tenantId) =>
    log.append(topic, 0, [{ key, value }]);
  const setState = (key: string, entry: Parameters<typeof deps.codecs.state.encode>[0] | null) =>
    append(TOPICS.linkerState, entry && deps.codecs.state.encode(entry), key);
  await setState(`report/${keyOf(record)}`, {
    ...NO_ENTRY,
    report,
  });
  const isDone = async (): Promise<boolean> => {
    for (const topic of [TOPICS.events, TOPICS.reportLinks]) {
      const [[end], [commit]] = [await log.endOffsets(topic), await log.committed(GROUPS.link, topic)];
      if ((commit?.offset ?? 0) !== end) return false;
    }
    return true;
  };
  const done = () => expect.poll(isDone, { timeout: 10_000, interval: 5 }).toBe(true);
  return {
    log,
    done,
    setState,
    anAppend: (): EventsAccepted =>
      anEventsAccepted({
        ...{ ...owner, receivedAt: nowMs },
        events: [{ sessionId, occurredAt: BigInt(nowMs) * 1000n }],
      }),
    append: (message: EventsAccepted | 'unreadable') =>
      append(
        TOPICS.events,
        message === 'unreadable' ? Buffer.from('not Avro') : deps.codecs.events.encode(recordOf(message)),
      ),
    start: () => startLinker(deps),
    /** Runs the linker until it has read all records. */
    run: async () => {
      const linker = await startLinker(deps);
      await done();
      await linker.stop();
    },
    /** Deletes all offsets of the group, or resets the offsets to the beginning. */
    loseOffsets: (how: 'deleted' | 'set back') =>
      database.sqlite.exec(
        how === 'deleted'
          ? `DELETE FROM commits WHERE consumer_group = '${GROUPS.link}'`
          : `UPDATE commits SET next_offset = 0 WHERE consumer_group = '${GROUPS.link}'`,
      ),
    /** Returns the linked events in the order of the topic. */
    linked: async () => {
      const ids: string[] = [];
      const tail = await log.tail({
        topic: TOPICS.linkedEvents,
        from: 'earliest',
        onBatch: async ({ records }) => {
          for (const { value } of records) ids.push((await deps.codecs.links.decode(value)).event.id);
        },
      });
      await tail.waitForOffsets(await log.endOffsets(TOPICS.linkedEvents));
      await tail.close();
      return ids;
    },
  };
}

const idsOf = (messages: readonly EventsAccepted[]): string[] =>
  messages.flatMap(({ events }) => events.map(({ id }) => id));

test('links each event exactly once if the group’s offsets are lost or reset at any time', async () => {
  const linker = await aLinker();
  const messages: EventsAccepted[] = [];
  for (const how of ['deleted', 'set back', 'deleted', 'set back'] as const) {
    const some = [linker.anAppend(), linker.anAppend(), linker.anAppend()];
    messages.push(...some);
    for (const message of some) await linker.append(message);
    await linker.run();
    // These records change nothing, so no entry contains their position.
    for (const message of ['unreadable', ...some.slice(-1)] as const) await linker.append(message);
    await linker.run();
    linker.loseOffsets(how);
  }
  await linker.run();
  expect(await linker.linked()).toEqual(idsOf(messages));
});

test('uses the group’s offsets for a changelog of an older version, which has no position, until the next entry', async () => {
  const linker = await aLinker();
  const messages = Array.from({ length: 6 }, linker.anAppend);
  for (const message of messages) await linker.append(message);
  await linker.run();
  await linker.setState(POSITION_KEY, null);
  const newer = linker.anAppend();
  await linker.append(newer);
  await linker.run();
  linker.loseOffsets('deleted');
  await linker.run();
  expect(await linker.linked()).toEqual(idsOf([...messages, newer]));
});

test('restores appends from slots of an older version, and each later owner does too', async () => {
  const linker = await aLinker();
  const [slots, newer] = [[linker.anAppend(), linker.anAppend()], linker.anAppend()];
  for (const [slot, { appendId }] of slots.entries()) {
    const appends = { ids: [appendId], since: 1 + slot };
    await linker.setState(`append/${slot}`, { ...NO_ENTRY, appends });
  }
  // Slot that the older version would have written next.
  await linker.setState('append/2', { ...NO_ENTRY, appends: { ids: [], since: 0 } });
  for (let owner = 0; owner < 3; owner++) {
    for (const message of [...slots, newer]) await linker.append(message);
    await linker.run();
  }
  expect(await linker.linked()).toEqual(idsOf([newer]));
});

test('an entry with a reused key has the age of its record and is not evicted first', async () => {
  const linker = await aLinker();
  const seen = Array.from({ length: 5 }, linker.anAppend);
  const newer = [linker.anAppend(), linker.anAppend()];
  // The last entry reuses the key of the first entry.
  for (const [at, { appendId }] of seen.entries()) {
    await linker.setState(`append/#${at % 4}`, { ...NO_ENTRY, appends: { ids: [appendId], since: at } });
  }
  for (const message of newer) await linker.append(message);
  await linker.run();
  for (const message of [...newer, ...seen.slice(-1)]) await linker.append(message);
  await linker.run();
  expect(await linker.linked()).toEqual(idsOf(newer));
});

test('records without effect write nothing to the changelog', async () => {
  const linker = await aLinker();
  await linker.append(linker.anAppend());
  await linker.run();
  const before = await linker.log.endOffsets(TOPICS.linkerState);
  await linker.append('unreadable');
  await linker.run();
  expect(await linker.log.endOffsets(TOPICS.linkerState)).toEqual(before);
});

test.each(['runs', 'is down'])(
  'after a truncation while the linker %s, new records at the same offsets are linked, and no event twice',
  async (when) => {
    const linker = await aLinker();
    const [kept, gone, ...newer] = Array.from({ length: 5 }, linker.anAppend);
    const before = [kept, gone].filter((message) => message !== undefined);
    for (const message of before) await linker.append(message);
    const running = await linker.start();
    await linker.done();
    if (when === 'is down') await running.stop();
    await linker.log.truncate(TOPICS.events, 0, 1);
    const again = when === 'is down' ? await linker.start() : running;
    await linker.done();
    // An append was linked and then lost in the truncation. It is sent again and is a duplicate.
    for (const message of [...newer, ...before.slice(1)]) await linker.append(message);
    await linker.done();
    await again.stop();
    await linker.run();
    expect(await linker.linked()).toEqual(idsOf([...before, ...newer]));
  },
);
