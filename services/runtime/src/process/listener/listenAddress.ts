/** Where a process listens, by the settings that say so. */
import { createServer, type Server } from 'node:net';
import { StartRefused } from '../errors.ts';

export interface ListenAddress {
  readonly host: string;
  /** 0 takes any free one. */
  readonly port: number;
  /** Among workers (node:cluster) it is of this one alone, and no connection comes by way of their parent. */
  readonly exclusive?: boolean;
  /** The settings that they come from, for whoever has to change one. */
  readonly settings: { readonly host: string; readonly port: string };
}

const HOST_ERRORS = new Set(['ENOTFOUND', 'EADDRNOTAVAIL', 'EAI_AGAIN', 'EINVAL']);

/** @throws StartRefused when the address is taken or not ours. */
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
  return `is taken: set another port in ${port}${orHost}`;
}

/** Checks every address before anything starts. @throws StartRefused naming each address that cannot be used. */
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

/** Takes the address and lets go of it: what is asked before anything starts. @throws StartRefused as `bind`. */
export async function checkAddress(address: ListenAddress): Promise<void> {
  // Who comes meanwhile is turned away: an answer would be waited for.
  const server = createServer((socket) => socket.destroy());
  await bind(server, address);
  await new Promise((closed) => server.close(closed));
}
