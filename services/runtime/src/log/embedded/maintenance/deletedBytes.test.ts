/** Deleted records leave no bytes in the files of the log, and the file shrinks. */
import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { expect, test } from 'vitest';
import { aRecord, readToEnd } from '../../contract/harness.ts';
import type { Log, NewRecord } from '../../log.ts';
import { MARKER, occurrencesIn } from '../testing/oldLogFile.ts';
import { aDirectory, aLog, HOUR_MS, ManualClock, topicSpec } from '../testing/testLog.ts';

const OTHER = 'a-player-who-stays-for-now';
const PARTITIONS = 6;
const seed = Number(process.env['SEED'] ?? Math.floor(Math.random() * 2 ** 31));

test('no file of the log has bytes of expired records after maintenance', async () => {
  const [clock, directory] = [new ManualClock(), aDirectory()];
  const log = await aLog({ clock, directory });
  await log.ensureTopics([topicSpec('t', { partitions: PARTITIONS })]);
  await appendMixed(log, { transactions: 400, markedShare: 1 });
  expect(occurrencesIn(directory)).toBeGreaterThan(0);
  clock.nowMs += HOUR_MS;
  await appendMixed(log, { transactions: 40, markedShare: 0 });
  clock.nowMs += 1;
  await log.maintain();

  expect(occurrencesIn(directory), `SEED=${seed}`).toBe(0);
  const kept = (await readToEnd(log, 't')).flat();
  expect(kept.length).toBeGreaterThan(40);
  expect(kept.every(({ value }) => value?.includes(OTHER))).toBe(true);
  await log.close();
  expect(occurrencesIn(directory), `SEED=${seed}`).toBe(0);
  expect(integrityOf(directory)).toBe('ok');
});

test('no file of the log has bytes of superseded records or deleted keys after maintenance', async () => {
  const [clock, directory] = [new ManualClock(), aDirectory()];
  const log = await aLog({ clock, directory });
  await log.ensureTopics([
    topicSpec('state', { partitions: PARTITIONS, cleanup: { policy: 'compact' } }),
    topicSpec('t', { partitions: PARTITIONS }),
  ]);
  await appendMixed(log, { transactions: 200, markedShare: 0.5 });
  const keys = Array.from({ length: 300 }, (_, index) =>
    index % 3 === 0 ? `${MARKER}-${index}` : `${index}`,
  );
  for (const [index, key] of keys.entries()) {
    await log.append('state', index % PARTITIONS, [
      aRecord(`${MARKER}${index}`.repeat(1 + (index % 40)), key),
    ]);
    if (index % 50 === 0) await log.maintain();
  }
  for (const [index, key] of keys.entries()) {
    const value = index % 3 === 0 ? null : Buffer.from(OTHER.repeat(1 + (index % 40)));
    await log.append('state', index % PARTITIONS, [{ key, value }]);
    if (index % 50 === 0) await log.maintain();
  }
  await log.maintain();
  clock.nowMs += 25 * HOUR_MS;
  await log.maintain();

  expect((await readToEnd(log, 'state')).flat()).toHaveLength(200);
  expect(occurrencesIn(directory), `SEED=${seed}`).toBe(0);
  await log.close();
  expect(integrityOf(directory)).toBe('ok');
});

test('the file shrinks to the size of its records', async () => {
  const [clock, directory] = [new ManualClock(), aDirectory()];
  const log = await aLog({ clock, directory });
  await log.ensureTopics([topicSpec('t')]);
  for (let i = 0; i < 50; i++) await log.append('t', 0, [aRecord(MARKER.repeat(20_000))]);
  await log.maintain();
  expect(bytesOf(directory)).toBeGreaterThan(20_000_000);
  clock.nowMs += HOUR_MS;
  await log.append('t', 0, [aRecord(OTHER)]);
  clock.nowMs += 1;
  await log.maintain();

  expect(bytesOf(directory)).toBeLessThan(500_000);
  expect(await log.startOffsets('t')).toEqual([50]);
});

/** Makes `transactions` appends to random partitions. Each append has one to four records of 20 to 40,000 bytes. */
async function appendMixed(log: Log, of: { transactions: number; markedShare: number }): Promise<void> {
  for (let i = 0; i < of.transactions; i++) {
    const records = Array.from({ length: 1 + random(4) }, (): NewRecord => {
      const text = random(1000) < of.markedShare * 1000 ? MARKER : OTHER;
      const copies = random(10) === 0 ? random(1_500) : random(50);
      return { key: `${text}/${random(9)}`, value: Buffer.from(`${text} `.repeat(1 + copies)) };
    });
    await log.append('t', random(PARTITIONS), records);
  }
}

let state = seed;
/** Returns a number from a linear congruential generator. The same seed returns the same numbers. */
function random(below: number): number {
  state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
  return Math.floor((state / 2 ** 32) * below);
}

function bytesOf(directory: string): number {
  const sizes = readdirSync(directory).map((name) => statSync(join(directory, name)).size);
  return sizes.reduce((sum, size) => sum + size, 0);
}

function integrityOf(directory: string): unknown {
  const sqlite = new DatabaseSync(join(directory, 'questlog.db'));
  const result = sqlite.prepare('PRAGMA integrity_check').get()?.['integrity_check'];
  sqlite.close();
  return result;
}
