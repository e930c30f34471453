/** Acknowledged records survive a `kill -9` at any moment. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';
import { readToEnd } from '../contract/harness.ts';
import { appendOf, KILL_TOPIC, type KillAppend, recordsOf } from './testing/killRecords.ts';
import { aDirectory, aLog } from './testing/testLog.ts';

const KILLS = 10;
const seed = Number(process.env['SEED'] ?? Math.floor(Math.random() * 2 ** 31));

it(`keeps every acknowledged record through ${KILLS} kills (SEED=${seed})`, async () => {
  console.info(`kill test: SEED=${seed}`);
  const directory = aDirectory();
  const random = randomFrom(seed);
  const acknowledged: Acknowledged[] = [];
  for (let run = 0; run < KILLS; run += 1) {
    acknowledged.push(...(await writeUntilKilled(directory, run, Math.floor(random() * 300))));
  }

  const log = await aLog({ directory });
  const partitions = await readToEnd(log, KILL_TOPIC.name);
  expect(await log.endOffsets(KILL_TOPIC.name)).toEqual(partitions.map((records) => records.length));
  for (const records of partitions) {
    expect(records.every(({ offset }, index) => offset === index)).toBe(true);
  }
  // An append that was not acknowledged is stored completely or not at all.
  const found = Map.groupBy(partitions.flat(), ({ key }) => key);
  for (const records of found.values()) {
    const [, , count] = (records[0]?.key ?? '').split('/');
    expect(records).toHaveLength(appendOf('', 0, Number(count)).count);
  }
  expect(new Set(acknowledged.map(({ name }) => name.split('/')[0])).size).toBe(KILLS);
  for (const append of acknowledged) {
    for (const [index, { key, value, headers }] of recordsOf(append).entries()) {
      const record = partitions[append.partition]?.[append.baseOffset + index];
      expect(record).toMatchObject({ key, headers });
      expect(value !== null && record?.value?.equals(value)).toBe(true);
    }
  }
});

interface Acknowledged extends KillAppend {
  readonly baseOffset: number;
}

/** Kills the writer after it has printed more than `afterLines` acknowledgements. Returns all acknowledgements. */
async function writeUntilKilled(directory: string, run: number, afterLines: number): Promise<Acknowledged[]> {
  const script = fileURLToPath(new URL('./testing/killWriter.ts', import.meta.url));
  const writer = spawn(process.execPath, [script, directory, `${run}`], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const exited = once(writer, 'exit');
  const acknowledged: Acknowledged[] = [];
  for await (const line of createInterface(writer.stdout)) {
    // The kill may truncate the last line.
    if (line.endsWith('}')) acknowledged.push(JSON.parse(line));
    if (acknowledged.length > afterLines) writer.kill('SIGKILL');
  }
  expect(await exited).toEqual([null, 'SIGKILL']);
  return acknowledged;
}

/** Returns a Mulberry32 generator. The same seed returns the same numbers. */
function randomFrom(start: number): () => number {
  let state = start;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
