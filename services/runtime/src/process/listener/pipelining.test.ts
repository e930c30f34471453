/** Tests requests that a client sends before it has read the responses to its earlier requests. */
import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import { text } from 'node:stream/consumers';
import { expect, test, vi } from 'vitest';
import { aListener, allOf } from '../testing/aListener.ts';
import { yieldToEventLoop } from '../waiting.ts';
import { MAX_WAITING } from './pipelining.ts';

/** Time limit that is long enough for a busy machine. */
const SOON = { interval: 5, timeout: 20_000 };
const END = 'GET /end HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n';

const requests = (count: number): string =>
  Array.from({ length: count }, (_, i) => `GET /held${i} HTTP/1.1\r\nHost: x\r\n\r\n`).join('');

const upTo = (count: number): number[] => Array.from({ length: count }, (_, i) => i);

/** Opens a listener that answers `/held` when the test decides, and other paths immediately. */
async function aSlowListener() {
  const pending: ServerResponse[] = [];
  const open = await aListener((request, response) => {
    if (request.url?.startsWith('/held') === true) pending.push(response);
    else response.end('at once');
  });
  return { held: pending, open };
}

/** Opens a listener that answers with the request's path and the length of its body, in a later turn of the event loop. */
async function anEcho() {
  const open = await aListener(async (request, response) => {
    const body = Buffer.concat(await request.toArray().catch(() => []));
    await yieldToEventLoop();
    response.end(`<${request.url} ${body.length}>`);
  });
  return { open };
}

test('one request of a connection runs at a time', async () => {
  const { held: pending, open } = await aSlowListener();
  const socket = open(requests(50));
  const answers: string[] = [];
  socket.on('data', (chunk) => answers.push(...(String(chunk).match(/answer \d+/g) ?? [])));
  await expect.poll(() => pending.length, { interval: 5 }).toBeGreaterThan(0);
  expect(await text(open(END))).toContain('at once');
  expect(pending).toHaveLength(1);

  for (let i = 0; i < 50; i += 1) {
    await expect.poll(() => pending, { interval: 1 }).toHaveLength(i + 1);
    pending[i]?.end(`answer ${i}`);
  }
  await expect.poll(() => answers, { interval: 5 }).toHaveLength(50);
  expect(answers).toEqual(upTo(50).map((i) => `answer ${i}`));
});

test.each([1, 2, MAX_WAITING, MAX_WAITING + 1, MAX_WAITING + 2, 65, 1_600])(
  '%i requests that are sent at once are all answered, in order',
  async (count) => {
    const { open } = await anEcho();
    const received = await allOf(open(requests(count) + END));

    expect(received.match(/<[^>]*>/g)).toEqual([...upTo(count).map((i) => `</held${i} 0>`), '</end 0>']);
  },
);

test('each pipelined request gets its own body, for every length and framing', async () => {
  const { open } = await anEcho();
  const lengths = upTo(200).map((i) => (i % 50 === 49 ? 200_000 : (i * 37) % 3_000));
  const sent = lengths.map((length, i) => {
    const body = 'GET /x HTTP/1.1\r\n\r\n'.repeat(length / 19 + 1).slice(0, length);
    const head = `POST /${i} HTTP/1.1\r\nHost: x\r\n`;
    if (i % 2 === 0 || length === 0) return `${head}Content-Length: ${length}\r\n\r\n${body}`;
    return `${head}Transfer-Encoding: chunked\r\n\r\n${length.toString(16)}\r\n${body}\r\n0\r\n\r\n`;
  });
  const received = await allOf(open(sent.join('') + END));

  expect(received.match(/<[^>]*>/g)).toEqual([...lengths.map((n, i) => `</${i} ${n}>`), '</end 0>']);
});

test('above 16 waiting requests the socket is not read, and nothing more is parsed', async () => {
  const { held: pending, open } = await aSlowListener();
  const flood = open(requests(1));
  await vi.waitFor(() => expect(pending).toHaveLength(1), SOON);
  const { socket } = pending[0] as ServerResponse;
  const piece = requests(1_000);
  // Waits until the socket and the kernel accept no more bytes.
  let isFull = false;
  for (let i = 0; i < 2_000 && !isFull; i += 1) {
    flood.write(piece);
    isFull = flood.writableLength > 8 * 1024 * 1024;
  }
  await vi.waitFor(() => expect(socket?.isPaused()).toBe(true), SOON);
  const read = socket?.bytesRead ?? 0;
  expect(await text(open(END))).toContain('at once');

  expect(socket?.bytesRead).toBe(read);
  expect(read).toBeLessThan(256 * 1024);
  expect(flood.destroyed).toBe(false);
  expect(pending).toHaveLength(1);
  socket?.destroy();
});

test('waiting requests begin in turns, so that other connections are served in between', async () => {
  let started = 0;
  let most = 0;
  const open = await aListener((_, response) => {
    started += 1;
    response.end('at once');
  });
  let isOver = false;
  const countTurns = async (): Promise<void> => {
    while (!isOver) {
      const before = started;
      await yieldToEventLoop();
      most = Math.max(most, started - before);
    }
  };
  const counted = countTurns();
  await Promise.all(upTo(8).map(() => allOf(open(requests(200) + END))));
  isOver = true;
  await counted;

  expect(started).toBe(8 * 201);
  // The limit is four waiting requests plus the first request of each connection.
  expect(most).toBeLessThanOrEqual(4 + 8);
});

test('a request after a request that ends the connection does not begin', async () => {
  const started: string[] = [];
  const open = await aListener((request, response) => {
    started.push(request.url ?? '');
    response.setHeader('Connection', 'close').end('the last');
  });
  const received = await allOf(open(requests(3_000)));

  expect(started).toEqual(['/held0']);
  // The response arrives without a reset, although the server did not read most of the requests.
  expect(received).toMatch(/the last$/);
});

const POST = 'POST /first HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}';

test.each([
  ['a NUL byte', '\0'],
  ['bytes that are not a request', 'no request\r\n\r\n'],
  ['a request without a host', 'GET /second HTTP/1.1\r\n\r\n'],
  ['a request with a malformed length', 'POST /second HTTP/1.1\r\nHost: x\r\nContent-Length: +1\r\n\r\n'],
  ['too large a head', `GET /second HTTP/1.1\r\nHost: x\r\nA: ${'x'.repeat(20_000)}\r\n\r\n`],
  ['malformed chunks', 'POST /second HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n'],
])('answers a request, and then rejects the bytes after it: %s', async (_, broken) => {
  for (const count of [0, 3, 40]) {
    const { open } = await anEcho();
    const received = await allOf(open(POST + requests(count) + broken + requests(3)));

    expect(received.match(/<[^>]*>/g)).toEqual(['</first 2>', ...upTo(count).map((i) => `</held${i} 0>`)]);
    expect(received.match(/HTTP\/1\.1 \d+/g)).toEqual([
      ...upTo(count + 1).map(() => 'HTTP/1.1 200'),
      'HTTP/1.1 400',
    ]);
    expect(received).toMatch(/Connection: close\r\n[^<]*\{"code":"malformed"\}$/);
  }
});

test('rejects broken bytes after a request only after its answer, however long the answer takes', async () => {
  const { held: pending, open } = await aSlowListener();
  const socket = open(`${requests(1)}no request\r\n\r\n`);
  const received = allOf(socket);
  await vi.waitFor(() => expect(pending).toHaveLength(1), SOON);
  pending[0]?.write('begun, ');
  await once(socket, 'data');
  expect(await text(open(END))).toContain('at once');
  pending[0]?.end('ended');

  expect(await received).toMatch(/^HTTP\/1\.1 200 .*begun, .*ended.*HTTP\/1\.1 400 .*"malformed"\}$/s);
});

test('rejects a body in too many small chunks after the answers to the requests before it', async () => {
  const { open } = await anEcho();
  const chunked = 'POST /second HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n';
  const received = await allOf(open(`${POST}${chunked}${'1\r\nx\r\n'.repeat(10_000)}0\r\n\r\n`));

  expect(received).toMatch(/^HTTP\/1\.1 200 .*<\/first 2>.*HTTP\/1\.1 400 .*"smallChunks"\}$/s);
});

test('chunks are not parsed before the handler reads the body, and never after an answer', async () => {
  const parsed: number[] = [];
  const open = await aListener(async (request, response) => {
    await yieldToEventLoop();
    await yieldToEventLoop();
    parsed.push(request.readableLength);
    if (request.url === '/refused') return void response.writeHead(401).end('no');
    const body = Buffer.concat(await request.toArray());
    response.end(`<${body.length}>`);
  });
  const chunked = (url: string): string =>
    `POST ${url} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n${'1\r\nx\r\n'.repeat(3_000)}0\r\n\r\n`;
  const received = await allOf(open(chunked('/read') + chunked('/read') + chunked('/refused') + requests(3)));

  expect(parsed).toEqual([0, 0, 0]);
  expect(received.match(/HTTP\/1\.1 \d+/g)).toEqual(['HTTP/1.1 200', 'HTTP/1.1 200', 'HTTP/1.1 401']);
  expect(received.match(/<\d+>/g)).toEqual(['<3000>', '<3000>']);
});

test('drops the waiting requests of a client that has disconnected', async () => {
  const { held: pending, open } = await aSlowListener();
  const flood = open(requests(1_600));
  await vi.waitFor(() => expect(pending).toHaveLength(1), SOON);
  flood.resetAndDestroy();
  // The server does not read the connection, so it notices the reset only when it answers.
  pending[0]?.end('gone');
  await once(pending[0] as ServerResponse, 'close');
  await vi.waitFor(() => {
    pending.at(-1)?.end('gone');
    expect(pending.at(-1)?.socket?.destroyed ?? true).toBe(true);
  }, SOON);
  const started = pending.length;
  expect(await text(open(END))).toContain('at once');

  expect(pending).toHaveLength(started);
});
