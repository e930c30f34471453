/** Tests the time limits of requests, and the headers of responses. */
import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import { connect, type Socket } from 'node:net';
import { text } from 'node:stream/consumers';
import { expect, onTestFinished, test, vi } from 'vitest';
import { yieldToEventLoop } from '../waiting.ts';
import { listen } from './listen.ts';
import { checkAddress, checkAddresses } from './listenAddress.ts';

test('a request has a minute to arrive, and more if it may take long', async () => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval', 'performance'] });
  onTestFinished(() => void vi.useRealTimers());
  let started = 0;
  const listener = await listen(
    (request, response) => {
      started += 1;
      request.resume().on('end', () => response.end('whole'));
    },
    { host: '127.0.0.1', port: 0, settings: { host: 'HOST', port: 'PORT' } },
    undefined,
    ({ url }) => url === '/file',
  );
  onTestFinished(() => listener.close());
  const begin = (path: string): Socket => {
    const socket = connect(listener.port, '127.0.0.1');
    onTestFinished(() => void socket.destroy());
    socket.write(`PUT ${path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 2\r\n\r\n1`);
    return socket;
  };
  const [slow, file] = [begin('/other'), begin('/file')];
  const answered = text(slow);
  await expect.poll(() => started, { interval: 5 }).toBe(2);

  vi.advanceTimersByTime(30_000);
  const quick = begin('/other');
  await expect.poll(() => started, { interval: 5 }).toBe(3);
  vi.advanceTimersByTime(40_000);
  expect(await answered).toMatch(/^HTTP\/1\.1 408 /);
  for (const socket of [quick, file]) {
    socket.write('2');
    const [answer] = await once(socket, 'data');
    expect(String(answer)).toMatch(/^HTTP\/1\.1 200 /);
  }
});

test.each<[string, (response: ServerResponse) => unknown]>([
  ['at its end', (response) => response.setHeader('A', 'b').end('x')],
  ['by an object', (response) => response.writeHead(200, { A: 'b' }).end('x')],
  ['by a list', (response) => response.writeHead(200, ['A', 'b']).end('x')],
  [
    'by a list after a header',
    (response) => response.setHeader('B', 'c').writeHead(200, ['A', 'b']).end('x'),
  ],
  ['before its body', (response) => response.setHeader('A', 'b').flushHeaders()],
])('adds the common headers once to a response whose head is written %s', async (_, answer) => {
  expect(await headersOf(answer)).toMatchObject({
    A: ['b'],
    'Cache-Control': ['no-store'],
    'X-Content-Type-Options': ['nosniff'],
  });
});

test('rejects a connection that arrives while an address is checked, and does not delay the start', async () => {
  // Replaces `setTimeout`, so no timeout of the product's code ends a connection during this test.
  vi.useFakeTimers({ toFake: ['setTimeout'] });
  onTestFinished(() => void vi.useRealTimers());
  const address = { host: '127.0.0.1', settings: { host: 'HOST', port: 'PORT' } };
  const first = await listen(() => {}, { ...address, port: 0 });
  const { port } = first;
  await first.close();
  let isOver = false;
  onTestFinished(() => {
    isOver = true;
  });
  const probe = async (): Promise<void> => {
    while (!isOver) {
      const socket = connect(port, '127.0.0.1', () => {
        socket.write('GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n');
      });
      socket.on('error', () => {});
      await new Promise((closed) => socket.on('close', closed));
    }
  };
  const probes = Promise.all([probe(), probe(), probe()]);
  for (let check = 0; check < 100; check++) {
    await checkAddress({ ...address, port });
    await yieldToEventLoop();
  }
  isOver = true;
  await probes;
});

test('names every address in use at once, with the settings that change it', async () => {
  const settings = [
    { host: 'GAMES_HOST', port: 'GAMES_PORT' },
    { host: 'ENGINE_PORT', port: 'ENGINE_PORT' },
  ];
  const address = { host: '127.0.0.1', port: 0, settings: { host: '', port: '' } };
  const listeners = await Promise.all(settings.map(() => listen((_, response) => response.end(), address)));
  onTestFinished(async () => void (await Promise.all(listeners.map((each) => each.close()))));
  const [games, engine] = listeners.map(({ port }) => port);
  const taken = listeners.map(({ port }, i) => ({
    ...address,
    port,
    settings: settings[i] ?? address.settings,
  }));

  await expect(checkAddresses([address, ...taken])).rejects.toThrow(
    `GAMES_PORT: 127.0.0.1:${games} is already in use: set another port in GAMES_PORT or another address in GAMES_HOST; ` +
      `ENGINE_PORT: 127.0.0.1:${engine} is already in use: set another port in ENGINE_PORT`,
  );
});

test('keeps headers that the response sets itself', async () => {
  const otherwise = { 'Cache-Control': ['no-cache'], 'X-Content-Type-Options': ['nosniff'] };
  const received = { 'Cache-Control': 'no-cache' };

  expect(
    await headersOf((response) => response.setHeaders(new Map(Object.entries(received))).end()),
  ).toMatchObject(otherwise);
  expect(await headersOf((response) => response.writeHead(200, received).end())).toMatchObject(otherwise);
});

/** Returns each header name with all values of the header. */
async function headersOf(answer: (response: ServerResponse) => unknown): Promise<Record<string, string[]>> {
  const at = { host: '127.0.0.1', port: 0, settings: { host: 'HOST', port: 'PORT' } };
  const listener = await listen((_, response) => void answer(response), at);
  onTestFinished(() => listener.close());
  const socket = connect(listener.port, '127.0.0.1');
  onTestFinished(() => void socket.destroy());
  socket.write('GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n');
  const [head] = await once(socket, 'data');
  const headers: Record<string, string[]> = {};
  for (const [, name = '', value = ''] of String(head).matchAll(/^([\w-]+): (.*?)\r$/gm))
    headers[name] = [...(headers[name] ?? []), value];
  return headers;
}
