/** Tests the limits of one connection with raw bytes that no HTTP client would send. */
import { once } from 'node:events';
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { expect, onTestFinished, test, vi } from 'vitest';
import { aListener, allOf, MIB } from '../testing/aListener.ts';
import { yieldToEventLoop } from '../waiting.ts';

/** Time limit that is long enough for a busy machine. */
const SOON = { interval: 5, timeout: 20_000 };
const HEAD = 'POST / HTTP/1.1\r\nHost: x\r\n';

function rejectRequest(response: ServerResponse): void {
  response.statusCode = 401;
  response.end('no');
}

const requests = (count: number): string =>
  Array.from({ length: count }, (_, i) => `GET /held${i} HTTP/1.1\r\nHost: x\r\n\r\n`).join('');

test('ends a connection after its timeout, but answers a request that arrived before', async () => {
  const sockets: Socket[] = [];
  const open = await aListener((request, response) => {
    sockets.push(request.socket);
    response.end(request.url);
  });
  const client = open('GET /first HTTP/1.1\r\nHost: x\r\n\r\n');
  await once(client, 'data');
  const [server] = sockets;
  // Simulates a suspended process: the request has arrived but is unread.
  client.write('GET /second HTTP/1.1\r\nHost: x\r\n\r\n');
  server?.emit('timeout');
  const [answer] = await once(client, 'data');
  expect(String(answer)).toContain('/second');

  server?.emit('timeout');
  await once(client, 'close');
});

test('a stopping listener answers requests that have arrived, on kept connections and on new ones', async () => {
  const open = await aListener((request, response) => void response.end(request.url));
  const kept = open('GET /first HTTP/1.1\r\nHost: x\r\n\r\n');
  await once(kept, 'data');
  // Simulates a process that was busy at the stop: both requests are unread in the kernel's buffers.
  kept.write('GET /second HTTP/1.1\r\nHost: x\r\n\r\n');
  const fresh = open('GET /third HTTP/1.1\r\nHost: x\r\n\r\n');
  const closed = open.close();
  expect(await Promise.all([allOf(kept), allOf(fresh)])).toEqual([
    expect.stringMatching(/Connection: close\r\n.*\/second$/s),
    expect.stringMatching(/Connection: close\r\n.*\/third$/s),
  ]);
  await closed;
});

test.each([
  ['with a Content-Length', `Content-Length: ${128 * MIB}\r\n`, ''],
  ['chunked', 'Transfer-Encoding: chunked\r\n', `${(128 * MIB).toString(16)}\r\n`],
])(
  'does not read the rest of a body after the response, which the client can still read: %s',
  async (_, framing, begin) => {
    const open = await aListener((__, response) => rejectRequest(response));
    const socket = open(`${HEAD}${framing}\r\n${begin}`);
    const answer = allOf(socket);
    let sent = 0;
    const piece = Buffer.alloc(64 * 1024);
    while (!socket.destroyed && sent < 128 * MIB) {
      sent += piece.length;
      if (!socket.write(piece))
        await new Promise((resolve) => socket.once('drain', resolve).once('close', resolve));
    }

    expect(await answer).toMatch(/^HTTP\/1\.1 401 .*no$/s);
    // The sent bytes do not include the bytes in the kernel's buffers.
    expect(sent).toBeLessThan(64 * MIB);
  },
);

test('closes the connection of a client that sends nothing more after the response', async () => {
  const open = await aListener((_, response) => rejectRequest(response));
  const socket = open(`${HEAD}Content-Length: 2\r\n\r\n`);
  expect(await text(socket)).toContain('no');
});

test('sends no second response to a slow request whose response has begun', async () => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval', 'performance'] });
  onTestFinished(() => void vi.useRealTimers());
  const open = await aListener(
    (_, response) => void response.write('begun'),
    () => false,
  );
  const socket = open(`${HEAD}Content-Length: 2\r\n\r\na`);
  const received = allOf(socket);
  await once(socket, 'data');
  vi.advanceTimersByTime(70_000);

  expect((await received).match(/HTTP/g)).toHaveLength(1);
});

test('closes the connection of a slow client that does not read the response', async () => {
  const { promise: started, resolve } = Promise.withResolvers<IncomingMessage>();
  const open = await aListener((request, response) => {
    response.end(Buffer.alloc(64 * MIB));
    resolve(request);
  });
  open(`${HEAD}Content-Length: 2\r\n\r\na`);
  const { socket } = await started;
  // Error that Node emits when the time limit of a request expires.
  const tooSlow = Object.assign(new Error('too slow'), { code: 'ERR_HTTP_REQUEST_TIMEOUT' });
  (socket as Socket & { server?: Server }).server?.emit('clientError', tooSlow, socket);

  await once(socket, 'close');
});

test('closes the connection of a client that reads no part of its response, but not of a client that waits for a response', async () => {
  const started: ServerResponse[] = [];
  const open = await aListener((_, response) => void started.push(response));
  const client = open('GET / HTTP/1.1\r\nHost: x\r\n\r\n');
  await vi.waitFor(() => expect(started).toHaveLength(1), SOON);
  const [answer] = started as [ServerResponse];
  expect(answer.socket?.timeout).toBeGreaterThan(0);
  answer.socket?.emit('timeout');
  await yieldToEventLoop();
  await yieldToEventLoop();
  await yieldToEventLoop();
  expect(answer.socket?.destroyed).toBe(false);

  client.pause();
  const { socket } = answer;
  answer.end(Buffer.alloc(64 * MIB));
  socket?.emit('timeout');
  await once(answer, 'close');
  expect(socket?.destroyed).toBe(true);
});

test('closes the connection of a client that reads no part of a file, but keeps a stream that has no data yet', async () => {
  const file = new Readable({ read: () => void file.push(Buffer.alloc(MIB)) });
  const started: ServerResponse[] = [];
  const open = await aListener((request, response) => {
    started.push(response);
    if (request.url === '/file') file.pipe(response);
    else response.write('event');
  });
  open('GET /file HTTP/1.1\r\nHost: x\r\n\r\n').pause();
  await once(open('GET /events HTTP/1.1\r\nHost: x\r\n\r\n'), 'data');
  await vi.waitFor(() => expect(file.isPaused()).toBe(true), SOON);
  for (const { socket } of started) socket?.emit('timeout');

  await vi.waitFor(() => expect(started.filter(({ destroyed }) => destroyed)).toHaveLength(1), SOON);
  expect(started.find(({ destroyed }) => destroyed)?.req.url).toBe('/file');
});

test.each([
  ['4,096 chunks of one byte', 4_096, 1, '200'],
  ['8,000 chunks of 512 bytes', 8_000, 512, '200'],
  ['a million chunks of one byte', 1_000_000, 1, '400'],
])('accepts a chunked body unless it has too many small chunks: %s', async (_, count, bytes, status) => {
  let most = 0;
  const open = await aListener((request, response) => {
    let chunks = 0;
    request.on('data', () => (most = Math.max(most, ++chunks)));
    request.on('end', () => response.end('taken'));
  });
  const chunk = `${bytes.toString(16)}\r\n${'x'.repeat(bytes)}\r\n`;
  const socket = open(
    `${HEAD}Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n${chunk.repeat(count)}0\r\n\r\n`,
  );
  expect(await allOf(socket)).toMatch(new RegExp(`^HTTP/1.1 ${status} [^]*$`));
  expect(most).toBeLessThanOrEqual(status === '200' ? 20_000 : 4_200);
});

test('a client that reads only after it has sent all small chunks receives the rejection, not a reset', async () => {
  const open = await aListener((request, response) => request.resume().on('end', () => response.end()));
  const socket = open(`${HEAD}Transfer-Encoding: chunked\r\n\r\n`).pause();
  let failure: unknown;
  socket.on('error', (error) => {
    failure = error;
  });
  await new Promise((resolve) => socket.write('1\r\nx\r\n'.repeat(2_400_000), resolve));

  socket.resume();

  expect(await allOf(socket)).toMatch(/^HTTP\/1\.1 400 .*"smallChunks"/s);
  expect(failure).toBeUndefined();
});

const CHUNKS = '\r\n1\r\na\r\n0\r\n\r\n';

test.each([
  ['a coding before chunked', `${HEAD}Transfer-Encoding: gzip, chunked\r\n${CHUNKS}`],
  [
    'a coding before chunked, in two fields',
    `${HEAD}Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n${CHUNKS}`,
  ],
  ['chunked twice', `${HEAD}Transfer-Encoding: chunked, chunked\r\n${CHUNKS}`],
  ['a coding after chunked', `${HEAD}Transfer-Encoding: chunked, gzip\r\n${CHUNKS}`],
  ['a coding without chunked', `${HEAD}Transfer-Encoding: gzip\r\n${CHUNKS}`],
  ['chunks in HTTP/1.0', `POST / HTTP/1.0\r\nHost: x\r\nTransfer-Encoding: chunked\r\n${CHUNKS}`],
  ['no version', 'GET /\r\n\r\n'],
  ['HTTP/0.9', 'GET / HTTP/0.9\r\nHost: x\r\n\r\n'],
  ['HTTP/1.2', 'GET / HTTP/1.2\r\nHost: x\r\n\r\n'],
  ['HTTP/2.0', 'GET / HTTP/2.0\r\nHost: x\r\n\r\n'],
  ['the preface of HTTP/2', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'],
  ['a URL without a host', 'GET http:// HTTP/1.1\r\nHost: x\r\n\r\n'],
  ['an invalid URL', 'GET http://[::1/ HTTP/1.1\r\nHost: x\r\n\r\n'],
  ['a URL with a user', 'GET http://%@x/ HTTP/1.1\r\nHost: x\r\n\r\n'],
  ['a fragment', 'GET //a@#? HTTP/1.1\r\nHost: x\r\n\r\n'],
  ['two hosts', `${HEAD}Host: y\r\n\r\n`],
  ['the same host twice', `${HEAD}HOST: x\r\n\r\n`],
  ['two hosts in HTTP/1.0', 'GET / HTTP/1.0\r\nHost: x\r\nHost: y\r\n\r\n'],
  ['no host', 'GET / HTTP/1.1\r\n\r\n'],
  ['a length and chunks', `${HEAD}Content-Length: 1\r\nTransfer-Encoding: chunked\r\n${CHUNKS}`],
  ['chunks and a length', `${HEAD}Transfer-Encoding: chunked\r\nContent-Length: 1\r\n${CHUNKS}`],
  ['two lengths', `${HEAD}Content-Length: 1\r\nContent-Length: 2\r\n\r\na`],
  ['a list of lengths', `${HEAD}Content-Length: 1, 1\r\n\r\na`],
  ['a signed length', `${HEAD}Content-Length: +1\r\n\r\na`],
  ['a length that is too large', `${HEAD}Content-Length: 99999999999999999999999\r\n\r\na`],
  ['bare LF', 'GET / HTTP/1.1\nHost: x\n\n'],
  ['a bare CR', `${HEAD}A: b\rc: d\r\n\r\n`],
  ['bare LF between chunks', `${HEAD}Transfer-Encoding: chunked\r\n\r\n1\na\n0\n\n`],
  ['a space before the colon', `${HEAD}A : b\r\n\r\n`],
  ['a folded line', `${HEAD}A: b\r\n c\r\n\r\n`],
  ['a NUL', `${HEAD}A: b\0c\r\n\r\n`],
  [
    'too long a chunk extension',
    `${HEAD}Transfer-Encoding: chunked\r\n\r\n1;${'x'.repeat(20_000)}\r\na\r\n0\r\n\r\n`,
  ],
  ['a head that is too large', `${HEAD}A: ${'x'.repeat(20_000)}\r\n\r\n`],
])('rejects and closes the connection: %s', async (_, sent) => {
  const answered: string[] = [];
  const open = await aListener((request, response) => {
    request.resume().on('end', () => {
      answered.push(request.url ?? '');
      response.end('taken');
    });
  });
  const socket = open(sent);
  const received = await text(socket);

  expect(received).toMatch(/^HTTP\/1\.1 400 Bad Request\r\n/);
  for (const line of [
    'Connection: close',
    'Content-Type: application/problem+json',
    'Cache-Control: no-store',
    'X-Content-Type-Options: nosniff',
  ]) {
    expect(received).toContain(`${line}\r\n`);
  }
  expect(received.split('\r\n\r\n')[1]).toBe('{"code":"malformed"}');
  expect(answered).toEqual([]);
});

test.each([
  ['HTTP/1.0 without a host', 'GET / HTTP/1.0\r\n\r\n'],
  ['chunks in capitals', `${HEAD}Connection: close\r\nTransfer-Encoding: CHUNKED\r\n${CHUNKS}`],
  ['an absolute URL', 'GET http://[::1]:8080/?a=@ HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n'],
])('accepts: %s', async (_, sent) => {
  const open = await aListener((request, response) =>
    request.resume().on('end', () => response.end('taken')),
  );
  expect(await text(open(sent))).toMatch(/^HTTP\/1\.1 200 .*taken$/s);
});

const EXPECTING = `${HEAD}Connection: close\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n`;
const CONTINUE = 'HTTP/1.1 100 Continue\r\n\r\n';

test('sends 100 Continue once the handler reads the body', async () => {
  const open = await aListener(async (request, response) => {
    const chunks: Buffer[] = request.url === '/events' ? [] : await request.toArray();
    if (request.url !== '/events') return void response.end(Buffer.concat(chunks));
    request.on('data', (chunk) => chunks.push(chunk));
    request.on('end', () => response.end(Buffer.concat(chunks)));
  });
  for (const url of ['/', '/events']) {
    const socket = open(EXPECTING.replace('/', url));
    const [first] = await once(socket, 'data');
    expect(String(first)).toBe(CONTINUE);
    socket.write('ab');
    expect(await text(socket)).toMatch(/^HTTP\/1\.1 200 .*ab$/s);
  }
});

test('sends no 100 Continue after a rejected head, and does not parse what the client sends anyway', async () => {
  let started = 0;
  const open = await aListener((_, response) => {
    started += 1;
    rejectRequest(response);
  });
  const socket = open(EXPECTING.replace('Connection: close\r\n', ''));
  const answer = allOf(socket);
  socket.write(requests(2));

  expect(await answer).toMatch(/^HTTP\/1\.1 401 .*no$/s);
  expect(started).toBe(1);
});

test('reads all rejected clients that keep sending at a limited rate, and delivers their responses', async () => {
  const open = await aListener((_, response) => rejectRequest(response));
  const more = Buffer.alloc(MIB);
  const started = performance.now();
  const answers = await Promise.all(
    Array.from({ length: 4 }, () => {
      // This client keeps its side of the connection open when the server ends the connection.
      const socket = open(`${HEAD}Content-Length: ${1024 * MIB}\r\n\r\n`, { allowHalfOpen: true });
      const goOn = (): void => {
        while (socket.writable && socket.write(more));
      };
      socket.on('drain', goOn);
      goOn();
      return allOf(socket);
    }),
  );

  for (const answer of answers) expect(answer).toMatch(/^HTTP\/1\.1 401 /);
  // The connections send 16 MiB each. For all connections together, the burst is 16 MiB and the rate is 32 MiB per second.
  expect(performance.now() - started).toBeGreaterThan(1_200);
});
