/** Tests that the client of the benchmark counts each response once. */
import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import { BROKEN, RawConnection, requestOf } from './rawHttp.ts';

const ANSWER = 'HTTP/1.1 201 Created\r\nContent-Length: 5\r\n\r\nabcde';

test.each([
  ['whole', [ANSWER]],
  ['cut inside its head', [ANSWER.slice(0, 30), ANSWER.slice(30)]],
  ['cut before its body', [ANSWER.slice(0, -5), ANSWER.slice(-5)]],
  ['byte by byte', [...ANSWER]],
])('an answer that comes %s is one answer, and the next request can follow', async (_, pieces) => {
  const connection = await connected(async (socket) => {
    for (const piece of pieces) await new Promise((resolve) => socket.write(piece, resolve));
  });
  expect(await connection.ask()).toBe(201);
  expect(await connection.ask()).toBe(201);
});

test('reports a broken connection, and opens another for the next request', async () => {
  let requests = 0;
  const connection = await connected(async (socket) => {
    requests++;
    if (requests === 1) socket.destroy();
    else socket.write(ANSWER);
  });
  expect(await connection.ask()).toBe(BROKEN);
  expect(await connection.ask()).toBe(201);
});

/** @param answer called with each request */
async function connected(answer: (socket: Socket) => Promise<void>) {
  const server = createServer((socket) => {
    socket.setNoDelay();
    socket.on('data', () => void answer(socket));
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/events`;
  const connection = new RawConnection(url);
  onTestFinished(() => {
    connection.close();
    server.close();
  });
  const request = requestOf(url, 'a token', Buffer.from('[]'));
  return { ask: () => new Promise((resolve) => connection.send(request, resolve)) };
}
