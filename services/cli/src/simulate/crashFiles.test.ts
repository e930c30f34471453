/** Tests the files of a simulated crash. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { buffer } from 'node:stream/consumers';
import { crc32, inflateSync } from 'node:zlib';
import { expect, onTestFinished, test } from 'vitest';
import { gameEndpoint } from '../connection.ts';
import { SeededRandom } from './core/seededRandom.ts';
import { screenshotPng, uploadedFiles } from './crashFiles.ts';

test('draws a valid PNG, which is the same for the same seed', () => {
  const png = screenshotPng(new SeededRandom(7));
  expect(screenshotPng(new SeededRandom(7))).toEqual(png);
  expect(screenshotPng(new SeededRandom(8))).not.toEqual(png);
  expect(png.subarray(0, 8).toString('latin1')).toBe('\x89PNG\r\n\x1a\n');
  const chunks = new Map<string, Buffer>();
  for (let at = 8; at < png.length; ) {
    const end = at + 8 + png.readUInt32BE(at);
    expect(png.readUInt32BE(end)).toBe(crc32(png.subarray(at + 4, end)));
    chunks.set(png.toString('latin1', at + 4, at + 8), png.subarray(at + 8, end));
    at = end + 4;
  }
  const [width, height] = [0, 4].map((at) => chunks.get('IHDR')?.readUInt32BE(at) ?? 0);
  expect(inflateSync(chunks.get('IDAT') ?? '')).toHaveLength((1 + 3 * (width ?? 0)) * (height ?? 0));
});

test('uploads the screenshot and the log to their upload URLs, and returns their sizes', async () => {
  const put = new Map<string, Buffer>();
  const url = await serving(async (path, body) => {
    if (path !== '/v1/ingest/uploads') {
      put.set(path, body);
      return [200, {}];
    }
    const uploadId = JSON.parse(`${body}`).fileName;
    return [200, { uploadId, uploadUrl: `${url}/put/${uploadId}`, requiredHeaders: { 'X-Own': '1' } }];
  });

  const named = await uploadedFiles(gameEndpoint(url, 'token'), ['one', 'two']);

  expect(put.get('/put/game.log')?.toString()).toBe('one\ntwo\n');
  expect(named.map(({ uploadId }) => [uploadId, put.get(`/put/${uploadId}`)?.length])).toEqual(
    named.map(({ fileName, sizeBytes }) => [fileName, sizeBytes]),
  );
});

test('returns no attachments if uploads are not configured', async () => {
  const url = await serving(async () => [501, { code: 'uploads_not_set_up', detail: 'not here' }]);
  expect(await uploadedFiles(gameEndpoint(url, 'token'), ['one'])).toEqual([]);
});

async function serving(
  answer: (path: string, body: Buffer) => Promise<[status: number, body: object]>,
): Promise<string> {
  const server = createServer(async (request, response) => {
    const [status, body] = await answer(`${request.url}`, await buffer(request));
    response.writeHead(status).end(JSON.stringify(body));
  });
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  onTestFinished(() => void server.close());
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}
