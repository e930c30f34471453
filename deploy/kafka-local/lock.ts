/** One command at a time changes a stack: two that start it at once would start everything twice. */
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { mkdirSync, realpathSync } from 'node:fs';
import { createServer, type Server } from 'node:net';
import { basename, dirname, join } from 'node:path';
import { waitFor } from './waitUntil.ts';

/** Longer than a first `up`, which fetches; who waits in vain for this long should look at what goes on there. */
const PATIENCE_MS = 15 * 60_000;

/**
 * Waits until nobody else holds the lock of this path; the path itself need not exist.
 *
 * The lock is the name of a socket in Linux's abstract namespace, which one process at a time can have and which ends
 * with it, however it ends. A lock file that its holder left behind would have to be broken by those who come after,
 * and two who break it at once can both believe to have it.
 *
 * @throws where that takes longer than 15 minutes.
 */
export async function withLock<T>(path: string, body: () => Promise<T>): Promise<T> {
  const held = await take(path);
  try {
    return await body();
  } finally {
    held.close();
  }
}

async function take(path: string): Promise<Server> {
  mkdirSync(dirname(path), { recursive: true });
  const realPath = join(realpathSync(dirname(path)), basename(path));
  const name = `\0questlog-stack-${createHash('sha256').update(realPath).digest('hex')}`;
  const held = await tryToTake(name);
  if (held !== undefined) return held;
  process.stderr.write('stack: waiting for another command to finish\n');
  const what = `another command, which is at work on ${path}`;
  return waitFor(() => tryToTake(name), { timeoutMs: PATIENCE_MS, what });
}

async function tryToTake(name: string): Promise<Server | undefined> {
  const server = createServer().listen(name);
  try {
    await once(server, 'listening');
    return server;
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'EADDRINUSE') return undefined;
    throw error;
  }
}
