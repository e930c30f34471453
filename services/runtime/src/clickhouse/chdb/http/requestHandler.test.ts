import { once } from 'node:events';
import { createServer, get, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Readable } from 'node:stream';
import { afterEach, expect, test } from 'vitest';
import { MAX_OPEN_REQUESTS } from '../engine/limits.ts';
import { auth } from '../testing/aClickHouse.ts';
import { type Backend, handleRequest } from './requestHandler.ts';

const READER = { username: 'reader', password: 'read-only' };
const PRODUCT = { username: 'default', password: 'secret' };
const ACCOUNTS = { product: PRODUCT, reader: READER, studios: new Map() };
const closers: (() => unknown)[] = [];
afterEach(() => Promise.all(closers.splice(0).map((close) => close())));

/** Serves requests with a backend whose parts a test provides. Returns the address of the server. */
async function serve(
  backend: object,
  prepare: (response: ServerResponse) => void = () => {},
): Promise<string> {
  const server = createServer((request, response) => {
    prepare(response);
    void handleRequest(backend as Backend, ACCOUNTS, request, response);
  });
  closers.push(
    () => server[Symbol.asyncDispose](),
    () => server.closeAllConnections(),
  );
  await once(server.listen(0, '127.0.0.1'), 'listening');
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

test('an error while sending the error closes the connection, and is reported', async () => {
  const failures: unknown[] = [];
  const onRequestFailure = (error: unknown) => void failures.push(error);
  const url = await serve({ readers: new Map(), onRequestFailure }, (response) => {
    response.setHeader = () => {
      throw new Error('invalid header');
    };
  });
  const [error] = await once(get(`${url}/ping`), 'error');
  expect(error).toMatchObject({ code: 'ECONNRESET' });
  expect(failures).toEqual([new Error('invalid header')]);
});

/** Returns a backend whose queries take effect when `run` ends and return the result `content`. */
function aBackend(content: Buffer | Readable, run: (backend: Backend) => void) {
  const released: number[] = [];
  const admission = {
    enter: async () => () => {},
    trackResult: (bytes: number) => () => void released.push(bytes),
  };
  const backend = {
    engine: {
      ...{ version: '26.7', timezone: 'UTC', normalize: async () => 'SELECT 1' },
      query: async () => {
        run(backend as unknown as Backend);
        return { bytes: Buffer.alloc(0), rowsRead: 1, bytesRead: 1, elapsed: 0 };
      },
    },
    files: {
      collect: async (
        signal: AbortSignal,
        write: (path: string, signal: AbortSignal) => Promise<unknown>,
      ) => ({
        outcome: await write('/result', signal),
        body: { content, bytes: 1_000_000 },
      }),
    },
    admission: { product: admission, reader: admission },
    readers: new Map<AbortController, { queryId: string; studio?: { username: string } }>(),
    onRequestFailure: () => {},
  };
  return { backend, released };
}

test('a query that is canceled too late keeps its unsent bytes until the response is closed', async () => {
  const endless = new Readable({ read() {} });
  endless.push('first bytes');
  const { backend, released } = aBackend(endless, ({ readers }) => {
    for (const query of readers.keys()) query.abort();
  });
  const url = await serve(backend);
  const [response] = (await once(get(`${url}/?query=SELECT+1`, { headers: auth(READER) }), 'response')) as [
    IncomingMessage,
  ];
  expect(released).toEqual([]);
  response.destroy();
  await expect.poll(() => released).toEqual([1_000_000]);
});

test('the end of a query does not affect the cancellation of another query with the same id', async () => {
  const { backend } = aBackend(Buffer.from('1'), () => {});
  const other = new AbortController();
  backend.readers.set(other, { queryId: 'same' });
  const url = await serve(backend);
  const ask = async (query: string, id: string) =>
    (await fetch(`${url}/?${new URLSearchParams({ query, query_id: id })}`, { headers: auth(READER) }))
      .status;
  expect(await ask('SELECT 1', 'same')).toBe(200);
  await expect.poll(() => backend.readers.size).toBe(1);
  expect(await ask("KILL QUERY WHERE query_id = 'same'", 'kill')).toBe(200);
  expect(other.signal.aborted).toBe(true);
});

test('the file of a result is closed if the client disconnects before the response starts', async () => {
  const content = new Readable({ read() {} });
  let response: ServerResponse | undefined;
  const { backend, released } = aBackend(content, () => response?.destroy());
  const url = await serve(backend, (own) => {
    response = own;
  });
  const asked = once(get(`${url}/?query=SELECT+1&compress=1`, { headers: auth(READER) }), 'error');
  expect(await asked).toMatchObject([{ code: 'ECONNRESET' }]);
  await expect.poll(() => [content.destroyed, released]).toEqual([true, [1_000_000]]);
});

test('an account with too many open requests blocks no other account', async () => {
  const { backend } = aBackend(Buffer.from('1'), () => {});
  const url = await serve(backend);
  const ask = async (account: typeof READER) =>
    await (await fetch(`${url}/?query=SELECT+1`, { headers: auth(account) })).text();
  const open = (query: { queryId: string; studio?: { username: string } }) => {
    for (let count = 0; count < MAX_OPEN_REQUESTS; count++) backend.readers.set(new AbortController(), query);
  };
  open({ queryId: '', studio: { username: 'studio' } });
  expect(await ask(READER)).toBe('1');
  open({ queryId: '' });
  expect(await ask(READER)).toContain('Too many simultaneous queries. Maximum: 64.');
  expect(await ask(PRODUCT)).toBe('1');
});
