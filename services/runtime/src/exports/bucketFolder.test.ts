/** Tests an export to a bucket whose server fails. */
import { once } from 'node:events';
import { createServer } from 'node:http';
import { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { expect, onTestFinished, test } from 'vitest';
import { openBucketFolder } from './bucketFolder.ts';
import { MeasuredContent } from './exportFolder.ts';

test('an export to a bucket sends a file again after a 503', async () => {
  const bodies: string[] = [];
  const server = createServer(async (request, response) => {
    bodies.push(await text(request));
    response.writeHead(bodies.length === 1 ? 503 : 200).end();
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  const address = server.address();
  const endpoint = `http://127.0.0.1:${typeof address === 'object' ? address?.port : ''}`;
  const secrets = { accessKeyId: 'id', secretAccessKey: 'secret', publicEndpoint: '' };
  const folder = await openBucketFolder(
    { bucket: 'b', region: 'us-east-1', endpoint, ...secrets },
    'exported',
  );
  const content = new MeasuredContent(Readable.from([Buffer.from('1\n2\n')]), new AbortController().signal);
  expect(await folder.store('day/1.csv', content, { rows: 2, state: '2.0' })).toMatchObject({ bytes: 4 });
  expect(bodies).toEqual(['1\n2\n', '1\n2\n']);
});
