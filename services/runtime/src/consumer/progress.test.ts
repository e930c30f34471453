import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { openEmbeddedLog } from '../log/embedded/embeddedLog.ts';
import type { Log } from '../log/log.ts';
import { watchProgress } from './progress.ts';

const HOUR_MS = 60 * 60 * 1000;
const TOPIC = 'progress';

let directory: string;
let log: Log;
let nowMs = 0;
const clock = { now: () => nowMs };

beforeEach(async () => {
  directory = mkdtempSync(join(tmpdir(), 'progress-'));
  log = await openEmbeddedLog({ directory, clock });
  await log.ensureTopics([
    { name: TOPIC, partitions: 1, cleanup: { policy: 'delete', retentionMs: 1e12 }, maxRecordBytes: 1e6 },
  ]);
});

afterEach(async () => {
  await log.close();
  rmSync(directory, { recursive: true, force: true });
});

const append = () => log.append(TOPIC, 0, [{ key: null, value: Buffer.from('x') }]);

test('a partition with lag that does not move is a problem', async () => {
  const progress = watchProgress({ log, clock, group: 'g', topic: TOPIC });
  await append();
  expect(await progress.problem()).toBeUndefined();
  nowMs += HOUR_MS;
  expect(await progress.problem()).toContain('has not moved on progress/0');
  expect(await progress.lag()).toBe(1);
});

test('a record after an hour of silence has not waited for an hour', async () => {
  const progress = watchProgress({ log, clock, group: 'g', topic: TOPIC });
  expect(await progress.problem()).toBeUndefined();
  nowMs += HOUR_MS;
  await append();
  expect(await progress.problem()).toBeUndefined();
});
