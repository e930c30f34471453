/** A copy of the log, made while it goes on: what of it is older than the rest, and what is not. */
import { mkdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { expect, test } from 'vitest';
import { aHolder, aRecord, nextRecords, textsToEnd, untilHolds } from '../contract/harness.ts';
import { copyLog } from './copyLog.ts';
import { openEmbeddedLog } from './embeddedLog.ts';
import { aDirectory, aLog, HOUR_MS, ManualClock, topicSpec } from './testing/testLog.ts';

const COMPACTED = topicSpec('directory', { cleanup: { policy: 'compact' } });
const { signal } = new AbortController();

function aPlace(): string {
  const to = join(aDirectory(), 'questlog.db');
  mkdirSync(dirname(to), { recursive: true });
  return to;
}

test('a copy has the commits of before for the groups that are named, and records and commits of afterwards', async () => {
  const log = await aLog();
  await log.ensureTopics([topicSpec('t'), COMPACTED]);
  await log.append('t', 0, [aRecord('a'), aRecord('b')]);
  const [projector, linker] = [await aHolder(log, 'project', 't'), await aHolder(log, 'link', 't')];
  await Promise.all([untilHolds(projector, 1), untilHolds(linker, 1)]);
  const read = async ({ current }: typeof projector, offset: number) => {
    await nextRecords(current(0));
    await current(0).commit('t', { offset, metadata: `to ${offset}` });
  };
  await read(projector, 1);
  await read(linker, 1);
  await log.append('directory', 0, [aRecord('kept', 'tenant'), aRecord('left out', 'secret')]);
  const to = aPlace();
  await log.copy({
    ...{ to, groups: ['project', 'never seen'], signal },
    without: [{ topic: 'directory', key: 'secret' }],
    first: async () => {
      await log.append('t', 0, [aRecord('c')]);
      await read(projector, 3);
      await read(linker, 3);
    },
  });
  await log.append('t', 0, [aRecord('d')]);

  const copy = await openEmbeddedLog({ directory: dirname(to), clock: new ManualClock() });
  expect(await textsToEnd(copy, 't')).toEqual([['a', 'b', 'c']]);
  expect(await textsToEnd(copy, 'directory')).toEqual([['kept']]);
  expect(await copy.committed('project', 't')).toEqual([{ offset: 1, metadata: '' }]);
  expect(await copy.committed('link', 't')).toEqual([{ offset: 3, metadata: 'to 3' }]);
  expect([copy.id, await copy.endOffsets('t')]).toEqual([log.id, [3]]);
  await copy.close();
});

test('a copy that begins while the log is being written to waits for that', async () => {
  const sqlite = new DatabaseSync(join(aDirectory(), 'log.db'));
  sqlite.exec(
    'PRAGMA journal_mode = WAL; CREATE TABLE commits (partition_id, consumer_group, next_offset, metadata)',
  );
  const to = aPlace();
  const first = async (): Promise<void> => {
    sqlite.exec("BEGIN IMMEDIATE; INSERT INTO commits VALUES (1, 'link', 7, '')");
    // Thousands of turns of the event loop: the first step has met the write by then.
    let turns = 5_000;
    const end = (): void => void (turns-- > 0 ? setImmediate(end) : sqlite.exec('COMMIT'));
    end();
  };
  await copyLog(sqlite, { to, groups: [], without: [], first, signal });
  const copy = new DatabaseSync(to);
  expect(copy.prepare('SELECT next_offset FROM commits').all()).toMatchObject([{ next_offset: 7 }]);
  copy.close();
  sqlite.close();
});

test('retention waits for a copy: what it deleted meanwhile could be behind the commits of before', async () => {
  const clock = new ManualClock();
  const log = await aLog({ clock });
  await log.ensureTopics([topicSpec('t')]);
  await log.append('t', 0, [aRecord('old')]);
  clock.nowMs += 2 * HOUR_MS;
  let maintained: Promise<void> | undefined;
  const to = aPlace();
  const first = async (): Promise<void> => {
    maintained = log.maintain();
  };
  await log.copy({ to, groups: [], without: [], signal, first });
  await maintained;
  expect(await log.startOffsets('t')).toEqual([1]);
  const copy = await openEmbeddedLog({ directory: dirname(to), clock });
  expect(await copy.startOffsets('t')).toEqual([0]);
  await copy.close();
});

test('a copy that is told to stop rejects, and the log goes on', async () => {
  const log = await aLog();
  await log.ensureTopics([topicSpec('t')]);
  for (let i = 0; i < 4; i++) await log.append('t', 0, [aRecord('x'.repeat(900_000))]);
  const stopping = new AbortController();
  const first = async (): Promise<void> => stopping.abort(new Error('stopping'));
  const copying = log.copy({ to: aPlace(), groups: [], without: [], signal: stopping.signal, first });
  await expect(copying).rejects.toThrow('stopping');
  expect(await log.append('t', 0, [aRecord('next')])).toEqual({ baseOffset: 4 });
});
