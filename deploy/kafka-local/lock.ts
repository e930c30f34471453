/** Lets only one command at a time change a stack. Two concurrent commands would start every node twice. */
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { mkdirSync, realpathSync } from 'node:fs';
import { createServer, type Server } from 'node:net';
import { basename, dirname, join } from 'node:path';
import { waitFor } from './waitUntil.ts';

const LOCK_TIMEOUT_MS = 15 * 60_000;

/**
 * Waits for the lock of a path, and runs `body`. The lock is a socket in Linux's abstract namespace, so the kernel releases the
 * lock when the process ends. A lock file would stay after a crash. @throws after 15 minutes.
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
