/**
 * Tests that the file of an older version is rewritten without the bytes of deleted records, and that a kill loses no
 * record.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { StartRefused, Unavailable } from '../../process/errors.ts';
import { yieldToEventLoop } from '../../process/waiting.ts';
import { aRecord, textsToEnd } from '../contract/harness.ts';
import { compactLog } from './compactLog.ts';
import { MARKER, makeOldLogFile, OLD_TOPIC, occurrencesIn } from './testing/oldLogFile.ts';
import { aDirectory, aLog, HOUR_MS, ManualClock } from './testing/testLog.ts';

const MIB = 1024 * 1024;

test('removes the bytes of deleted records from a file of an older version and shrinks the file, now and after later deletions', async () => {
  const directory = aDirectory();
  const kept = await makeOldLogFile(directory, 2_000);
  expect(occurrencesIn(directory)).toBeGreaterThan(500);
  const old = await aLog({ directory });
  expect(old.needsCompact).toBe(true);
  await old.close();

  const { bytesBefore, bytesAfter } = compactLog(directory);
  expect(occurrencesIn(directory)).toBe(0);
  expect(bytesAfter).toBeLessThan(bytesBefore * 0.6);
  expect(statSync(join(directory, 'questlog.db')).size).toBe(bytesAfter);
  const clock = new ManualClock();
  const log = await aLog({ directory, clock });
  expect(log.needsCompact).toBe(false);
  expect(await textsToEnd(log, OLD_TOPIC)).toEqual([kept]);
  await log.append(OLD_TOPIC, 0, [aRecord(MARKER.repeat(30_000))]);
  clock.nowMs += 4 * HOUR_MS;
  await log.maintain();
  expect([await textsToEnd(log, OLD_TOPIC), occurrencesIn(directory)]).toEqual([[[]], 0]);
  expect(statSync(join(directory, 'questlog.db')).size).toBeLessThan(MIB);
});

test('a kill at any moment of the rewrite loses no record', async () => {
  const original = aDirectory();
  const kept = await makeOldLogFile(original, 6_000);
  const keptBytes = kept.reduce((sum, value) => sum + value.length, 0);
  let kills = 0;
  // The write-ahead log grows to the size of the new file. It is emptied after its content is in the file.
  for (const share of [0, 0.1, 0.3, 0.6, 0.9, 2]) {
    const directory = aDirectory();
    cpSync(original, directory, { recursive: true });
    const isKilled = await killedWhen(directory, () => walBytesOf(directory) > share * keptBytes);
    kills += isKilled ? 1 : 0;
    if (!isKilled) expect(occurrencesIn(directory)).toBe(0);
    const log = await aLog({ directory });
    expect(await textsToEnd(log, OLD_TOPIC)).toEqual([kept]);
    await log.close();
    if (isKilled) compactLog(directory);
    expect(occurrencesIn(directory)).toBe(0);
  }
  // On a fast machine, the process can finish before the condition holds.
  expect(kills).toBeGreaterThan(0);
});

test('changes nothing if there is no log, if a process has the log open, or if the disk has too little free space', async () => {
  expect(() => compactLog(aDirectory())).toThrow(StartRefused);
  const directory = aDirectory();
  await makeOldLogFile(directory, 200);
  const log = await aLog({ directory });
  expect(() => compactLog(directory)).toThrow(/another process/);
  await log.close();

  const file = join(directory, 'questlog.db');
  const before = readFileSync(file);
  expect(() => compactLog(directory, () => 2 ** 60)).toThrow(Unavailable);
  expect(() => compactLog(directory, () => 2 ** 60)).toThrow(
    /compacting needs \d+ MiB of free disk, and \d+ MiB are free/,
  );
  expect(readFileSync(file).equals(before)).toBe(true);
});

/** Kills the process as soon as the condition holds. Returns true if the process was killed before it finished. */
async function killedWhen(directory: string, condition: () => boolean): Promise<boolean> {
  const script = fileURLToPath(new URL('./testing/compactProcess.ts', import.meta.url));
  const child = spawn(process.execPath, [script, directory], { stdio: ['ignore', 'pipe', 'inherit'] });
  const exited = once(child, 'exit');
  while (child.exitCode === null && child.signalCode === null) {
    if (condition()) child.kill('SIGKILL');
    await yieldToEventLoop();
  }
  const [code, signal] = await exited;
  if (signal === null) expect(code).toBe(0);
  return signal === 'SIGKILL';
}

function walBytesOf(directory: string): number {
  return statSync(join(directory, 'questlog.db-wal'), { throwIfNoEntry: false })?.size ?? 0;
}
