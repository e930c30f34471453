/** One command at a time changes a stack: two concurrent ones would start everything twice. */
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { mkdirSync, realpathSync } from 'node:fs';
import { createServer, type Server } from 'node:net';
import { basename, dirname, join } from 'node:path';
import { waitFor } from './waitUntil.ts';

/** Longer than a first `up`, which fetches jars. A longer wait needs a human. */
const LOCK_TIMEOUT_MS = 15 * 60_000;

/**
 * Waits until nobody else holds the lock of this path. The path need not exist.
 *
 * The lock is the name of a socket in Linux's abstract namespace. One process at a time can have it, and it ends with the
 * process, however that ends. A stale lock file would have to be broken, and two that break it at once can both believe
 * to have it.
 *
 * @throws after 15 minutes.
 */
export async function withLock<T>(path: string, body: () => Promise<T>): Promise<T> {
  const lockServer = await acquire(path);
  try {
    return await body();
  } finally {
    lockServer.close();
  }
}

async function acquire(path: string): Promise<Server> {
  mkdirSync(dirname(path), { recursive: true });
  const realPath = join(realpathSync(dirname(path)), basename(path));
  const name = `\0questlog-stack-${createHash('sha256').update(realPath).digest('hex')}`;
  const lockServer = await tryAcquire(name);
  if (lockServer !== undefined) return lockServer;
  process.stderr.write('stack: waiting for another command to finish\n');
  const what = `another command, which is at work on ${path}`;
  return waitFor(() => tryAcquire(name), { timeoutMs: LOCK_TIMEOUT_MS, what });
}

async function tryAcquire(name: string): Promise<Server | undefined> {
  const server = createServer().listen(name);
  try {
    await once(server, 'listening');
    return server;
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'EADDRINUSE') return undefined;
    throw error;
  }
}
