/** Tests that ingest warns when no process of operations runs. */
import { expect, onTestFinished, test } from 'vitest';
import { createHealth } from '../process/health.ts';
import { silentLogger } from '../process/logger.ts';
import { emptyDirectory } from './directory.ts';
import { warnWithoutHeartbeat, writeHeartbeats } from './heartbeat.ts';
import type { DirectoryHandle } from './openDirectory.ts';

test('warns before the first heartbeat, and if the latest heartbeat is older than 60 s', async () => {
  let nowMs = 1_000_000;
  const clock = { now: () => nowMs };
  const current = emptyDirectory();
  const put = (async (_, id, entity) => {
    current.heartbeats.set(id, entity as { at: number });
  }) as DirectoryHandle['put'];
  const health = createHealth();
  warnWithoutHeartbeat({ current }, clock, health);
  const warning = async () => (await health.state()).warnings['operations'];
  expect(await warning()).toContain('no process of operations has run yet');

  onTestFinished(writeHeartbeats({ put }, clock, silentLogger));
  await expect.poll(warning).toBeUndefined();
  nowMs += 60_000;
  expect(await warning()).toBeUndefined();
  nowMs += 1_000;
  expect(await warning()).toContain('no process of operations has run for 61 s');
});
