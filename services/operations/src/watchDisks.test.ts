/** Tests that the use of the disks is reported while a node of ClickHouse does not answer. */
import { Unavailable } from '@questlog/runtime/process/errors';
import type { BoundedResource } from '@questlog/runtime/process/metrics';
import { expect, onTestFinished, test } from 'vitest';
import { watchDisks } from './watchDisks.ts';

test('reports the fullest disk of the nodes that answer', async () => {
  const answering = (freeBytes: number) => ({ query: async () => [{ totalBytes: 100, freeBytes }] });
  const failing = {
    query: async () => {
      throw new Unavailable('does not answer');
    },
  };
  const nodes = [answering(60), failing, undefined, answering(10)].map((store) => ({ store }));
  const resources: BoundedResource[] = [];
  const metrics = { resources: { add: (resource: BoundedResource) => resources.push(resource) } };
  onTestFinished(watchDisks({ store: { nodes: () => nodes }, log: {}, metrics } as never));
  await expect.poll(() => resources[0]?.used()).toBe(90);
});
