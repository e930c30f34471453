/** A listener with limits on time, and a stop that lets running requests finish. */
import { createServer, type RequestListener, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { StartRefused } from '@questlog/runtime/process/errors';

export interface Listener {
  readonly port: number;
  /** No new connections; idle ones end at once, the others after their answer. */
  close(): Promise<void>;
}

const REQUEST_TIMEOUT_MS = 60_000;
const HEADERS_TIMEOUT_MS = 15_000;
const KEEP_ALIVE_MS = 65_000;
const DRAIN_MS = 8_000;

/** @throws StartRefused when the address is taken or not ours. */
export async function listen(
  handler: RequestListener,
  host: string,
  port: number,
  setting: string,
): Promise<Listener> {
  const server = createServer(
    {
      requestTimeout: REQUEST_TIMEOUT_MS,
      headersTimeout: HEADERS_TIMEOUT_MS,
      keepAliveTimeout: KEEP_ALIVE_MS,
    },
    handler,
  );
  await new Promise<void>((resolve, reject) => {
    server.once('error', (cause: NodeJS.ErrnoException) => {
      const reason = cause.code === 'EADDRINUSE' ? 'is taken' : `cannot be used (${cause.code})`;
      reject(new StartRefused(`${setting}: ${host}:${port} ${reason}`, { cause }));
    });
    server.listen(port, host, resolve);
  });
  return { port: portOf(server), close: () => drain(server) };
}

function portOf(server: Server): number {
  const address: AddressInfo | string | null = server.address();
  if (typeof address === 'object' && address !== null) return address.port;
  throw new Error('the listener has no port');
}

async function drain(server: Server): Promise<void> {
  const closed = new Promise<void>((resolve) => server.close(() => resolve()));
  server.closeIdleConnections();
  const timer = setTimeout(() => server.closeAllConnections(), DRAIN_MS);
  await closed;
  clearTimeout(timer);
}
