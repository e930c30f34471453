/** Tests that the open load measures pauses of a server, including the wait for a free connection and unanswered requests. */
import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import { due } from '../pace.ts';
import { openLoad, type Target } from './pathLoad.ts';
import { requestOf } from './rawHttp.ts';

const ANSWER = 'HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n';
const [PER_SECOND, FOR_MS, REQUESTS] = [100, 100, 10];

test('counts each latency from the due time of its request until a paused server answers', async () => {
  let firstAtMs: number | undefined;
  let releasedAtMs = Number.POSITIVE_INFINITY;
  const target = await aTarget(async (socket) => {
    firstAtMs ??= performance.now();
    await due(firstAtMs + FOR_MS);
    releasedAtMs = Math.min(releasedAtMs, performance.now());
    socket.write(ANSWER);
  });
  const { p50Ms, p99Ms, timedOut } = await openLoad(target, PER_SECOND);
  // The first request was due before the server received it.
  const held = releasedAtMs - (firstAtMs ?? 0);
  expect(p99Ms).toBeGreaterThanOrEqual(held);
  expect(p50Ms).toBeGreaterThanOrEqual(held - (REQUESTS / 2) * (1000 / PER_SECOND));
  expect(timedOut).toBe(0);
});

test.each([
  ['are held', () => {}],
  ['break off', (socket: Socket) => void socket.destroy()],
])(
  'counts all requests whose responses %s, including requests without a free connection',
  async (_, answer) => {
    const target = await aTarget(async (socket) => answer(socket));
    const { p99Ms, refused, timedOut } = await openLoad(target, PER_SECOND, FOR_MS);
    expect({ refused, timedOut }).toEqual({ refused: 0, timedOut: REQUESTS });
    expect(p99Ms).toBeGreaterThanOrEqual(FOR_MS - 1000 / PER_SECOND);
  },
);

/** Starts a server and a client with fewer connections than requests. @param answer called with each request */
async function aTarget(answer: (socket: Socket) => Promise<void>): Promise<Target> {
  const server = createServer((socket) => socket.on('data', () => void answer(socket)));
  await once(server.listen(0, '127.0.0.1'), 'listening');
  onTestFinished(() => void server.close());
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/events`;
  const requests = [requestOf(url, 'a token', Buffer.from('[]'))];
  return { url, status: 201, requests, connections: 2, warmUpMs: 0, forMs: FOR_MS };
}
