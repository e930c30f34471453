/** One command at a time changes a stack: two that start it at once would start everything twice. */
import { linkSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { identityOf, isAlive, type OwnProcess } from './ownProcess.ts';

/** @throws where another command holds the lock; one that has died holds nothing. */
export async function withLock<T>(folder: string, body: () => Promise<T>): Promise<T> {
  const path = join(folder, 'lock');
  mkdirSync(folder, { recursive: true });
  take(path);
  try {
    return await body();
  } finally {
    rmSync(path, { force: true });
  }
}

/** A link appears with its content: nobody reads a lock that is half written. */
function take(path: string): void {
  const own = `${path}.${process.pid}`;
  writeFileSync(own, JSON.stringify(identityOf(process.pid)));
  try {
    const holder = holderOf(path);
    if (isAlive(holder)) throw new Error(`another command (process ${holder.pid}) is at work on ${path}`);
    rmSync(path, { force: true });
    linkSync(own, path);
  } finally {
    rmSync(own, { force: true });
  }
}

function holderOf(path: string): OwnProcess | undefined {
  try {
    return JSON.parse(readFileSync(path, 'utf8'));
  } catch {
    return undefined;
  }
}
