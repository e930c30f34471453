/** Tests access to streams of linked events, the limits on their number, and clients that do not read. */
import { type ClientRequest, request } from 'node:http';
import { TOPICS } from '@questlog/schemas/topics/topics';
import { expect, test, vi } from 'vitest';
import { appendLinks, aStreamBench, PARTITIONS, type Reader, type StreamBench } from './stream.testing.ts';
import { follow, until, untilHas } from './streamClient.testing.ts';
import { STREAM_LIMITS } from './streams.ts';

test.each([
  ['from', { from: 'yesterday' }],
  ['from', { from: '' }],
  ['Last-Event-ID', { from: 'start', lastEventId: '17' }],
])('rejects an invalid position in %s with a 400 that names it: %j', async (name, at) => {
  const bench = await aStreamBench();
  const { status, text } = await refused(bench, bench.reader(), at);

  expect(status).toBe(400);
  expect(JSON.parse(text)).toMatchObject({ code: 'invalid_request', detail: expect.stringContaining(name) });
});

test('rejects a stream for a token without the scope read', async () => {
  const bench = await aStreamBench();
  const unknown = { ...bench.reader(), token: 'unknown' };

  expect((await refused(bench, unknown)).status).toBe(401);
  expect((await refused(bench, bench.reader({ scopes: ['events:write'] }))).status).toBe(403);
});

test('answers a HEAD request, which uses no stream', async () => {
  const bench = await aStreamBench({ maxStreams: 0 });
  const { token } = bench.reader();
  const headers = { Authorization: `Bearer ${token}` };
  const answer = await fetch(`${bench.baseUrl}/v1/linked-events`, { method: 'HEAD', headers });

  expect(answer.status).toBe(200);
  expect(answer.headers.get('content-type')).toContain('text/event-stream');
});

test('rejects one stream too many with a 503 and Retry-After, and accepts a stream after another has ended', async () => {
  const bench = await aStreamBench({ maxStreams: 2 });
  const reader = bench.reader();
  const [first] = [await follow(bench.baseUrl, bench.reader()), await follow(bench.baseUrl, bench.reader())];
  const tooMany = await refused(bench, reader);
  expect(tooMany.status).toBe(503);
  expect(tooMany.headers.get('retry-after')).toMatch(/^\d+$/);
  expect(await openStreams(bench)).toBe(2);

  first.close();
  await until(async () => expect(await openStreams(bench)).toBe(1));
  expect((await follow(bench.baseUrl, reader)).status).toBe(200);
});

test('a client that disconnects while its stream starts frees its permit', async () => {
  const bench = await aStreamBench();
  const offsets = await bench.log.startOffsets(TOPICS.linkedEvents);
  const held = Promise.withResolvers<number[]>();
  vi.spyOn(bench.log, 'startOffsets').mockReturnValueOnce(held.promise);
  const asked = requestOf(bench, bench.reader()).on('error', () => undefined);
  await until(async () => expect(await openStreams(bench)).toBe(1));
  asked.destroy();
  await until(() => expect(bench.responses[0]?.destroyed).toBe(true));
  held.resolve(offsets);

  await until(async () => expect(await openStreams(bench)).toBe(0));
});

test('limits the streams of a project with a 503, and serves other projects', async () => {
  const bench = await aStreamBench({ maxStreamsOfProject: 2 });
  const reader = bench.reader();
  const first = await follow(bench.baseUrl, reader);
  await follow(bench.baseUrl, reader);
  const tooMany = await refused(bench, reader);
  expect(tooMany.status).toBe(503);
  expect(tooMany.headers.get('retry-after')).toMatch(/^\d+$/);
  const other = bench.reader({ tenantId: reader.tenantId });
  expect((await follow(bench.baseUrl, other)).status).toBe(200);

  first.close();
  await until(async () => expect(await openStreams(bench)).toBe(2));
  expect((await follow(bench.baseUrl, reader)).status).toBe(200);
});

test('limits the streams of a tenant with many projects', async () => {
  const bench = await aStreamBench({ maxStreams: 4 });
  const readers = [bench.reader()];
  for (let i = 0; i < 4; i++) readers.push(bench.reader({ tenantId: readers[0]?.tenantId ?? '' }));
  const asked = await Promise.all(readers.map((reader) => follow(bench.baseUrl, reader)));
  expect(asked.map(({ status }) => status).toSorted()).toEqual([200, 200, 503, 503, 503]);
  expect((await follow(bench.baseUrl, bench.reader())).status).toBe(200);
});

test('allows a project 16 of the 64 streams of a process', () => {
  expect(STREAM_LIMITS).toMatchObject({ maxStreams: 64, maxStreamsOfProject: 16 });
});

test('sends no message to a revoked token, and ends its stream', async () => {
  const bench = await aStreamBench();
  const reader = bench.reader();
  const stream = await follow(bench.baseUrl, reader);
  await appendLinks(bench, reader, 1);
  await untilHas(stream, 1);
  bench.revoke(reader);
  await appendLinks(bench, reader, 1);

  await until(() => expect(stream.end()).toBe('whole'));
  expect(stream.messages).toHaveLength(1);
  expect(await openStreams(bench)).toBe(0);
});

test('ends the stream of a revoked token while no message arrives', async () => {
  const bench = await aStreamBench();
  const reader = bench.reader();
  const stream = await follow(bench.baseUrl, reader);
  bench.revoke(reader);
  const begun = performance.now();

  await until(() => expect(stream.end()).toBe('whole'));
  expect(performance.now() - begun).toBeLessThan(2_000);
});

/** Time after which a stopping listener closes open connections. A faster stop did not wait for the clients. */
const CUT_OFF_MS = 6_000;

test('a stop ends streams cleanly and does not wait for their clients', async () => {
  const bench = await aStreamBench();
  const stream = await follow(bench.baseUrl, bench.reader());
  const begun = performance.now();
  await bench.stop();

  expect(performance.now() - begun).toBeLessThan(CUT_OFF_MS);
  await until(() => expect(stream.end()).toBe('whole'));
});

const LARGE = { event: { payload: Buffer.from(`{"text":"${'x'.repeat(250_000)}"}`) } };

test('a slow client uses memory for one message, and receives all messages', async () => {
  const bench = await aStreamBench();
  const reader = bench.reader();
  const links = 100;
  const ids = new Set<string>();
  for (let i = 0; i < links; i++) ids.add((await bench.append(reader, i % PARTITIONS, LARGE)).linkId);
  const answer = await unread(bench, reader);
  await until(() => expect(bench.responses[0]?.writableNeedDrain).toBe(true));

  let most = 0;
  const chunks: string[] = [];
  for await (const chunk of answer) {
    most = Math.max(most, bench.responses[0]?.writableLength ?? 0);
    chunks.push(chunk);
    if (totalLength(chunks) > links * LARGE.event.payload.length && chunk.endsWith('\n\n')) break;
  }
  const linkIds = [...chunks.join('').matchAll(/"linkId":"([^"]+)"/g)].map(([, id]) => id);
  expect(most).toBeGreaterThan(0);
  expect(most).toBeLessThan(2 * LARGE.event.payload.length);
  expect(linkIds).toHaveLength(links);
  expect(new Set(linkIds)).toEqual(ids);
});

test('disconnects a client that does not read, and frees its permit', async () => {
  const bench = await aStreamBench({ stalledMs: 50 });
  const reader = bench.reader();
  for (let i = 0; i < 100; i++) await bench.append(reader, i % PARTITIONS, LARGE);
  await unread(bench, reader);

  await until(async () => expect(await openStreams(bench)).toBe(0));
  expect(bench.responses[0]?.destroyed).toBe(true);
});

test('a stop does not wait for a client that does not read', async () => {
  const bench = await aStreamBench();
  const reader = bench.reader();
  for (let i = 0; i < 100; i++) await bench.append(reader, i % PARTITIONS, LARGE);
  await unread(bench, reader);
  await until(() => expect(bench.responses[0]?.writableNeedDrain).toBe(true));
  const begun = performance.now();
  await bench.stop();

  expect(performance.now() - begun).toBeLessThan(CUT_OFF_MS);
});

async function refused(
  bench: StreamBench,
  { token }: Reader,
  at: { from?: string; lastEventId?: string } = {},
): Promise<{ status: number; text: string; headers: Headers }> {
  const query = at.from === undefined ? '' : `?from=${at.from}`;
  const resume = at.lastEventId === undefined ? {} : { 'Last-Event-ID': at.lastEventId };
  const response = await fetch(`${bench.baseUrl}/v1/linked-events${query}`, {
    headers: { Authorization: `Bearer ${token}`, ...resume },
  });
  expect(response.headers.get('content-type')).toBe('application/problem+json');
  return { status: response.status, text: await response.text(), headers: response.headers };
}

async function openStreams({ metrics }: StreamBench): Promise<number | undefined> {
  return (await metrics.linkedEventStreams.get()).values[0]?.value;
}

/** Returns a response. The connection is not read until the caller iterates over the body. */
function unread(bench: StreamBench, reader: Reader): Promise<AsyncIterable<string>> {
  const { promise, resolve, reject } = Promise.withResolvers<AsyncIterable<string>>();
  const asked = requestOf(bench, reader);
  asked.once('error', reject);
  asked.once('response', (answer) => {
    asked.off('error', reject);
    asked.on('error', () => undefined);
    answer.on('error', () => undefined);
    resolve(answer.setEncoding('utf8'));
  });
  return promise;
}

function requestOf({ baseUrl }: StreamBench, { token }: Reader): ClientRequest {
  return request(`${baseUrl}/v1/linked-events`, { headers: { Authorization: `Bearer ${token}` } }).end();
}

function totalLength(chunks: readonly string[]): number {
  return chunks.reduce((length, chunk) => length + chunk.length, 0);
}
