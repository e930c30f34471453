/** Copies of a log that is in use: the commits and records that a copy contains. */
import { mkdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { expect, test } from 'vitest';
import { aMember, aRecord, nextRecords, textsToEnd, untilAssigned } from '../contract/harness.ts';
import { copyLog } from './copyLog.ts';
import { openEmbeddedLog } from './embeddedLog.ts';
import { aDirectory, aLog, HOUR_MS, ManualClock, topicSpec } from './testing/testLog.ts';

const COMPACTED = topicSpec('directory', { cleanup: { policy: 'compact' } });
const { signal } = new AbortController();

function aPath(): string {
  const path = join(aDirectory(), 'questlog.db');
  mkdirSync(dirname(path), { recursive: true });
  return path;
}

test('a copy has earlier commits of the named groups and all later records and other commits', async () => {
  const log = await aLog();
  await log.ensureTopics([topicSpec('t'), COMPACTED]);
  await log.append('t', 0, [aRecord('a'), aRecord('b')]);
  const [projector, linker] = [await aMember(log, 'project', 't'), await aMember(log, 'link', 't')];
  await Promise.all([untilAssigned(projector, 1), untilAssigned(linker, 1)]);
  const read = async ({ current }: typeof projector, offset: number) => {
    await nextRecords(current(0));
    await current(0).commit('t', { offset, metadata: `to ${offset}` });
  };
  await read(projector, 1);
  await read(linker, 1);
  await log.append('directory', 0, [aRecord('kept', 'tenant'), aRecord('left out', 'secret')]);
  const path = aPath();
  await log.copy({
    ...{ path, groups: ['project', 'never seen'], signal },
    excluded: [{ topic: 'directory', key: 'secret' }],
    beforeCopy: async () => {
      await log.append('t', 0, [aRecord('c')]);
      await read(projector, 3);
      await read(linker, 3);
    },
  });
  await log.append('t', 0, [aRecord('d')]);

  const copy = await openEmbeddedLog({ directory: dirname(path), clock: new ManualClock() });
  expect(await textsToEnd(copy, 't')).toEqual([['a', 'b', 'c']]);
  expect(await textsToEnd(copy, 'directory')).toEqual([['kept']]);
  expect(await copy.committed('project', 't')).toEqual([{ offset: 1, metadata: '' }]);
  expect(await copy.committed('link', 't')).toEqual([{ offset: 3, metadata: 'to 3' }]);
  expect([copy.id, await copy.endOffsets('t')]).toEqual([log.id, [3]]);
  await copy.close();
});

test('a copy waits for a running write of the log', async () => {
  const sqlite = new DatabaseSync(join(aDirectory(), 'log.db'));
  sqlite.exec(
    'PRAGMA journal_mode = WAL; CREATE TABLE commits (partition_id, consumer_group, next_offset, metadata)',
  );
  const path = aPath();
  const beforeCopy = async (): Promise<void> => {
    sqlite.exec("BEGIN IMMEDIATE; INSERT INTO commits VALUES (1, 'link', 7, '')");
    // The write ends after thousands of turns of the event loop. By then, the first step of the copy has found the file locked.
    let turns = 5_000;
    const end = (): void => void (turns-- > 0 ? setImmediate(end) : sqlite.exec('COMMIT'));
    end();
  };
  await copyLog(sqlite, { path, groups: [], excluded: [], beforeCopy, signal });
  const copy = new DatabaseSync(path);
  expect(copy.prepare('SELECT next_offset FROM commits').all()).toMatchObject([{ next_offset: 7 }]);
  copy.close();
  sqlite.close();
});

test('retention waits for a copy, because it could delete records after the earlier commits', async () => {
  const clock = new ManualClock();
  const log = await aLog({ clock });
  await log.ensureTopics([topicSpec('t')]);
  await log.append('t', 0, [aRecord('old')]);
  clock.nowMs += 2 * HOUR_MS;
  let maintained: Promise<void> | undefined;
  const path = aPath();
  const beforeCopy = async (): Promise<void> => {
    maintained = log.maintain();
  };
  await log.copy({ path, groups: [], excluded: [], signal, beforeCopy });
  await maintained;
  expect(await log.startOffsets('t')).toEqual([1]);
  const copy = await openEmbeddedLog({ directory: dirname(path), clock });
  expect(await copy.startOffsets('t')).toEqual([0]);
  await copy.close();
});

test('an aborted copy rejects, and the log stays usable', async () => {
  const log = await aLog();
  await log.ensureTopics([topicSpec('t')]);
  for (let i = 0; i < 4; i++) await log.append('t', 0, [aRecord('x'.repeat(900_000))]);
  const stopping = new AbortController();
  const beforeCopy = async (): Promise<void> => stopping.abort(new Error('stopping'));
  const copying = log.copy({
    path: aPath(),
    groups: [],
    excluded: [],
    signal: stopping.signal,
    beforeCopy,
  });
  await expect(copying).rejects.toThrow('stopping');
  expect(await log.append('t', 0, [aRecord('next')])).toEqual({ baseOffset: 4 });
});
