/** Finds free ports for the nodes of a stack. A node keeps its port after a restart. */
import { randomInt } from 'node:crypto';
import { createServer } from 'node:net';

/** Ports are below 32768, because Linux uses higher ports for outgoing connections. */
const LOWEST = 20_000;
const HIGHEST = 32_000;

/** Returns free ports. @throws if too few ports are free after many attempts. */
export async function freePorts(count: number): Promise<number[]> {
  const ports = new Set<number>();
  for (let attempt = 0; attempt < 100 * count && ports.size < count; attempt++) {
    const port = randomInt(LOWEST, HIGHEST);
    if (await isFree(port)) ports.add(port);
  }
  if (ports.size < count) throw new Error(`fewer than ${count} ports are free from ${LOWEST} to ${HIGHEST}`);
  return [...ports];
}

export function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', () => resolve(false));
    server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)));
  });
}
