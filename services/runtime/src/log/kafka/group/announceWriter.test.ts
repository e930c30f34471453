import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import { silentLogger } from '../../../process/logger.ts';
import { announceWriter } from './announceWriter.ts';

/** A process must stop within 15 s, and closes more than the announcement. */
const WITHIN_MS = 5_000;

test('a process that stops does not wait for a broker that accepts connections but never answers', async () => {
  const broker = createServer();
  broker.listen(0, '127.0.0.1');
  await once(broker, 'listening');
  onTestFinished(() => void broker.close());
  const brokers = [`127.0.0.1:${(broker.address() as AddressInfo).port}`];
  const writer = announceWriter({
    connection: { brokers, clientId: 'test' },
    prefix: 'test-',
    logger: silentLogger,
  });
  await once(broker, 'connection');

  const beganMs = performance.now();
  await writer.close();
  expect(performance.now() - beganMs).toBeLessThan(WITHIN_MS);
});
