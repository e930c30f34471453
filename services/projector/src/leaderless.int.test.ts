/** Tests a projector that starts while a partition has no leader. */
import { randomUUID } from 'node:crypto';
import { withoutLeader } from '@questlog/runtime/log/testing/alteredLog';
import { anEventsAccepted } from '@questlog/schemas/fixtures/builders';
import { eventsAccepted } from '@questlog/schemas/topics/eventsAccepted';
import { TOPICS } from '@questlog/schemas/topics/topics';
import { expect, onTestFinished, test } from 'vitest';
import { openBench } from './testing/projectorBench.ts';

test('projects the other partitions and is ready; projects this partition after it gets a leader', async () => {
  const bench = await openBench(2);
  onTestFinished(() => bench.close());
  const projects = [randomUUID(), randomUUID()];
  for (const [partition, projectId] of projects.entries()) {
    const message = anEventsAccepted({ projectId, receivedAt: Date.now(), events: [{}] });
    await bench.append(TOPICS.events, eventsAccepted, [message], partition);
  }
  const projected = async () => {
    const rows = await bench.store.query<{ id: (typeof projects)[number] }>(
      'SELECT DISTINCT project_id AS id FROM events',
      {},
    );
    return rows.map(({ id }) => projects.indexOf(id)).sort();
  };
  const { log, electLeader } = withoutLeader(bench.log, 1);
  const projector = await bench.start(bench.store, log);
  onTestFinished(() => projector.stop());
  await expect.poll(projected).toEqual([0]);
  expect((await bench.health.state()).problems).toEqual({});
  electLeader();
  await expect.poll(projected).toEqual([0, 1]);
});
