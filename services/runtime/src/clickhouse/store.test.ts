/** The client keeps its own bounds, whatever a query made ClickHouse send. */
import { once } from 'node:events';
import { createServer } from 'node:http';
import { Readable } from 'node:stream';
import { expect, onTestFinished, test } from 'vitest';
import { openStore, QueryRefused } from './store.ts';

test('an answer beyond its bound is refused, and its connection closed', async () => {
  const endless = Readable.from(
    (function* () {
      for (;;) yield Buffer.alloc(1024);
    })(),
  );
  const server = createServer((_, response) => endless.pipe(response).on('close', () => endless.destroy()));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => void server.close());
  const address = server.address();
  const port = typeof address === 'object' ? address?.port : undefined;
  const store = openStore({
    url: `http://127.0.0.1:${port}`,
    username: 'u',
    password: '',
    database: 'questlog',
  });
  onTestFinished(() => store.close());

  const ended = once(endless, 'close');
  const asked = store.ask('SELECT number FROM system.numbers', {}, 64 * 1024);
  await expect(asked).rejects.toThrow(QueryRefused);
  await expect(asked).rejects.toThrow('larger than 64 KiB');
  await ended;
});
