/** Tests the connections of the S3 store with a server that does not respond. */
import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { eventId } from '@questlog/schemas/uuid';
import { expect, onTestFinished, test } from 'vitest';
import { silentLogger } from '../process/logger.ts';
import { openS3Store } from './s3Store.ts';

test('counts requests that wait for a response', async () => {
  const responses: ServerResponse[] = [];
  const server = createServer((_, response) => void responses.push(response)).listen(0, '127.0.0.1');
  onTestFinished(() => void server.close());
  await once(server, 'listening');
  const endpoint = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const bucket = { endpoint, publicEndpoint: '', bucket: 'files', region: 'us-east-1' };
  const store = openS3Store({ ...bucket, accessKeyId: 'id', secretAccessKey: 'secret' }, [], silentLogger);
  const { connections } = store;

  const removal = store.remove({ projectId: 'a game', uploadId: eventId(0, 0, Buffer.alloc(8)) });
  await expect.poll(() => responses.length).toBe(1);
  expect(connections?.used()).toBe(1);
  responses[0]?.end('<DeleteResult/>');
  await removal;
  await expect.poll(() => connections?.used()).toBe(0);
});
