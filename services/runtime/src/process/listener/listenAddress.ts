/** Address that a process listens on, and the names of the settings that define the address. */
import { createServer, type Server } from 'node:net';
import { StartRefused } from '../errors.ts';

export interface ListenAddress {
  readonly host: string;
  readonly port: number;
  /** True if only this worker of a `node:cluster` listens on the address. False if all workers share the address. */
  readonly exclusive?: boolean;
  readonly settings: { readonly host: string; readonly port: string };
}

const HOST_ERRORS = new Set(['ENOTFOUND', 'EADDRNOTAVAIL', 'EAI_AGAIN', 'EINVAL']);

/** Listens on the address. @throws StartRefused if the address is in use or cannot be used on this host. */
export function bind(
  server: Server,
  { host, port, exclusive = false, settings }: ListenAddress,
): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', (cause: NodeJS.ErrnoException) => {
      const name = HOST_ERRORS.has(cause.code ?? '') ? settings.host : settings.port;
      const reason = cause.code === 'EADDRINUSE' ? addressTaken(settings) : `cannot be used (${cause.code})`;
      reject(new StartRefused(`${name}: ${host}:${port} ${reason}`, { cause }));
    });
    server.listen({ port, host, exclusive }, resolve);
  });
}

function addressTaken({ host, port }: ListenAddress['settings']): string {
  const orHost = host === port ? '' : ` or another address in ${host}`;
  return `is already in use: set another port in ${port}${orHost}`;
}

/** Checks all addresses before the process starts anything. @throws StartRefused with each address that cannot be used. */
export async function checkAddresses(addresses: readonly ListenAddress[]): Promise<void> {
  const rejected: StartRefused[] = [];
  for (const address of addresses) {
    await checkAddress(address).catch((error: unknown) => {
      if (!(error instanceof StartRefused)) throw error;
      rejected.push(error);
    });
  }
  const [first] = rejected;
  if (first === undefined) return;
  throw new StartRefused(rejected.map(({ message }) => message).join('; '), { cause: first.cause });
}

export async function checkAddress(address: ListenAddress): Promise<void> {
  // Closes connections that arrive during the check, because the clients would get no response.
  const server = createServer((socket) => socket.destroy());
  await bind(server, address);
  await new Promise((closed) => server.close(closed));
}
