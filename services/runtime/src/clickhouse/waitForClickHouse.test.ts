/** Tests the start of a process while ClickHouse is unavailable. */
import { once } from 'node:events';
import { createServer } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import { StartRefused, Unavailable } from '../process/errors.ts';
import { silentLogger } from '../process/logger.ts';
import { identify } from './cluster/clusterNodes.ts';
import type { Store } from './store.ts';
import { requireSupportedClickHouse, waitForClickHouse } from './waitForClickHouse.ts';

test('waits until ClickHouse is available, and logs the wait', async () => {
  const server = createServer();
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  const port = typeof address === 'object' ? address?.port : undefined;
  server.close();
  await once(server, 'close');
  const warned: string[] = [];
  const back = async (event: string): Promise<void> => {
    warned.push(event);
    if (!server.listening) server.listen(port, '127.0.0.1');
  };
  onTestFinished(() => void server.close());

  await waitForClickHouse(`http://127.0.0.1:${port}`, { ...silentLogger, warn: (event) => void back(event) });
  expect(warned[0]).toBe('clickhouse_awaited');
});

test('ends the start after the timeout with the cause', async () => {
  // No server listens on port 9 (discard).
  const failed = waitForClickHouse('http://127.0.0.1:9', silentLogger, 50);
  await expect(failed).rejects.toThrow(Unavailable);
  await expect(failed).rejects.toThrow('ClickHouse does not answer: connect ECONNREFUSED 127.0.0.1:9');
});

test.each(['24.8.14.39', '24.10.1.1', '26.3.17.110-lts'])('accepts ClickHouse %s', async (version) => {
  await requireSupportedClickHouse({ query: async <Row>() => [{ version }] as Row[] });
});

test.each(['24.7.6.8', '23.12.1.1'])(
  'rejects ClickHouse %s, which lacks features that the tables need',
  async (version) => {
    const started = requireSupportedClickHouse({ query: async <Row>() => [{ version }] as Row[] });
    await expect(started).rejects.toThrow(StartRefused);
    await expect(started).rejects.toThrow(`ClickHouse ${version} is too old: Questlog needs 24.8 or newer`);
  },
);

test.each(['24.8.14.39', '25.12.1.1', '26.2.4.23'])(
  'rejects ClickHouse %s as a node of a cluster, because it can insert a block twice',
  async (version) => {
    const query = async <Row>() => [{ version }] as Row[];
    const identified = identify({ query } as unknown as Store, 'http://a', 'main', 1);
    await expect(identified).rejects.toThrow(StartRefused);
    await expect(identified).rejects.toThrow(
      `ClickHouse ${version} is too old: Questlog needs 26.3 or newer for a cluster`,
    );
  },
);
