/** How long a request may take to arrive. */
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { text } from 'node:stream/consumers';
import { expect, onTestFinished, test, vi } from 'vitest';
import { listen } from './listen.ts';

test('a request has a minute to arrive, one that may take long has more', async () => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval', 'performance'] });
  onTestFinished(() => void vi.useRealTimers());
  let begun = 0;
  const listener = await listen(
    (request, response) => {
      begun += 1;
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
  await vi.waitFor(() => expect(begun).toBe(2), { interval: 5 });

  vi.advanceTimersByTime(30_000);
  const quick = begin('/other');
  await vi.waitFor(() => expect(begun).toBe(3), { interval: 5 });
  vi.advanceTimersByTime(40_000);
  expect(await answered).toMatch(/^HTTP\/1\.1 408 /);
  for (const socket of [quick, file]) {
    socket.write('2');
    const [answer] = await once(socket, 'data');
    expect(String(answer)).toMatch(/^HTTP\/1\.1 200 /);
  }
});
