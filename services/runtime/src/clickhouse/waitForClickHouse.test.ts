/** A process that is started while ClickHouse is away, or before it. */
import { once } from 'node:events';
import { createServer } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import { StartRefused, Unavailable } from '../process/errors.ts';
import { silentLogger } from '../process/logger.ts';
import { requireSupportedClickHouse, waitForClickHouse } from './waitForClickHouse.ts';

test('a start waits until ClickHouse is there, and says so meanwhile', async () => {
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

test('a start does not wait for ever, and says why it ended', async () => {
  // Nobody listens on the port of discard.
  const failed = waitForClickHouse('http://127.0.0.1:9', silentLogger, 50);
  await expect(failed).rejects.toThrow(Unavailable);
  await expect(failed).rejects.toThrow('ClickHouse does not answer: connect ECONNREFUSED 127.0.0.1:9');
});

test.each(['24.8.14.39', '24.10.1.1', '26.3.17.110-lts'])('a start takes ClickHouse %s', async (version) => {
  await requireSupportedClickHouse({ query: async <Row>() => [{ version }] as Row[] });
});

test.each(['24.7.6.8', '23.12.1.1'])(
  'a start refuses ClickHouse %s, which lacks what the tables need',
  async (version) => {
    const started = requireSupportedClickHouse({ query: async <Row>() => [{ version }] as Row[] });
    await expect(started).rejects.toThrow(StartRefused);
    await expect(started).rejects.toThrow(`ClickHouse ${version} is too old: Questlog needs 24.8 or newer`);
  },
);
