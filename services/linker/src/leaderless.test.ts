/** Tests a linker that starts while a partition has no leader. */
import { aLog } from '@questlog/runtime/log/embedded/testing/testLog';
import { withoutLeader } from '@questlog/runtime/log/testing/alteredLog';
import { systemClock } from '@questlog/runtime/process/clock';
import { anEventsRecord } from '@questlog/schemas/fixtures/builders';
import { GROUPS, TOPICS, topicDefinitions } from '@questlog/schemas/topics/topics';
import { expect, onTestFinished, test } from 'vitest';
import { startLinker } from './linker.ts';
import { partitionDeps } from './testing/partitionDeps.ts';

test('links the other partitions and is ready; links this partition after it gets a leader', async () => {
  const whole = await aLog({ clock: systemClock });
  await whole.ensureTopics(topicDefinitions(2));
  const { log, electLeader } = withoutLeader(whole, 1);
  const deps = await partitionDeps(log);
  for (const partition of [0, 1]) {
    const value = deps.codecs.events.encode(anEventsRecord({ receivedAt: Date.now() }));
    await whole.append(TOPICS.events, partition, [{ key: null, value }]);
  }
  const linked = async () =>
    (await whole.committed(GROUPS.link, TOPICS.events)).map((commit) => commit?.offset ?? 0);
  const linker = await startLinker(deps);
  onTestFinished(() => linker.stop());
  await expect.poll(linked).toEqual([1, 0]);
  expect((await deps.health.state()).problems).toEqual({});
  electLeader();
  await expect.poll(linked).toEqual([1, 1]);
});
