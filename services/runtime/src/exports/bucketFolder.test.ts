/** Tests how an export writes files to a bucket: after a failure of the server, and with files of different sizes. */
import { hash } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { expect, onTestFinished, test } from 'vitest';
import { openBucketFolder } from './bucketFolder.ts';
import { MeasuredContent } from './exportFolder.ts';

test('an export to a bucket sends a file again after a 503', async () => {
  const { folder, bodies } = await aBucketFolder(1);
  expect(await folder.store('day/1.csv', content('1\n2\n'), FACTS)).toMatchObject({ bytes: 4 });
  expect(bodies.map(String)).toEqual(['1\n2\n', '1\n2\n']);
});

test('a file is stored completely if the file is larger or smaller than the previous file', async () => {
  const { folder, bodies } = await aBucketFolder();
  const pieces = Array.from({ length: 40 }, (_, n) => String(n % 10).repeat(1024 * 1024));
  const files = [['first'], pieces, ['last', 'file']];
  for (const [n, file] of files.entries())
    expect(await folder.store(`day/${n}.csv`, content(...file), FACTS)).toMatchObject({
      sha256: hash('sha256', file.join('')),
    });
  expect(bodies.map((body) => hash('sha256', body))).toEqual(
    files.map((file) => hash('sha256', file.join(''))),
  );
});

test('a file that needs too much memory is rejected, and the server receives nothing', async () => {
  const { folder, bodies } = await aBucketFolder();
  const piece = Buffer.alloc(256 * 1024 * 1024 + 1);
  const large = new MeasuredContent(Readable.from([piece]), new AbortController().signal);
  await expect(folder.store('day/1.csv', large, FACTS)).rejects.toThrow('day/1.csv has more than 256 MiB');
  expect(bodies).toEqual([]);
});

const FACTS = { rows: 2, state: '2.0' };

function content(...pieces: readonly string[]): MeasuredContent {
  return new MeasuredContent(
    Readable.from(pieces.map((piece) => Buffer.from(piece))),
    new AbortController().signal,
  );
}

/** Returns a folder in a bucket, and the bodies that the server receives. The server rejects the first `rejected` requests. */
async function aBucketFolder(rejected = 0) {
  const bodies: Buffer[] = [];
  const server = createServer(async (request, response) => {
    bodies.push(await buffer(request));
    response.writeHead(bodies.length <= rejected ? 503 : 200).end();
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  const address = server.address();
  const endpoint = `http://127.0.0.1:${typeof address === 'object' ? address?.port : ''}`;
  const secrets = { accessKeyId: 'id', secretAccessKey: 'secret', publicEndpoint: '' };
  const options = { bucket: 'b', region: 'us-east-1', endpoint, ...secrets };
  return { folder: await openBucketFolder(options, 'exported'), bodies };
}
