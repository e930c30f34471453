/** Lets only one command at a time change a stack, because two concurrent commands would start every node twice. */
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { mkdirSync, realpathSync } from 'node:fs';
import { createServer, type Server } from 'node:net';
import { basename, dirname, join } from 'node:path';
import { waitFor } from './waitUntil.ts';

/** Maximum wait for the lock. A first `up`, which downloads jars, is shorter. After the maximum, an operator must decide. */
const LOCK_TIMEOUT_MS = 15 * 60_000;

/**
 * Waits for the lock of a path, which need not exist, and runs `body`. The lock is a socket in Linux's abstract namespace.
 * Only one process can own the name of the socket. The kernel releases the name when the process ends. A lock file could
 * become stale, and two processes that remove the file at once could both believe that they own the lock.
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
  const what = `another command that uses ${path}`;
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
