/** One engine a process and one process a directory: both are chdb's, and are said here before it says them worse. */

import { readdir, readFile, readlink } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { StartRefused } from '../../../process/errors.ts';

/**
 * Claims a directory for this process, until what it returns is called.
 * @throws StartRefused when this process runs an engine already, or another process has this directory
 */
export async function claimDirectory(directory: string): Promise<() => void> {
  if (claimed !== undefined) {
    throw new StartRefused(`this process already runs an embedded ClickHouse, on ${claimed}`);
  }
  claimed = directory;
  const release = (): void => {
    claimed = undefined;
  };
  const holder = await lastingHolder(join(directory, 'clickhouse', 'status'));
  if (holder === undefined) return release;
  release();
  throw new StartRefused(`another process (pid ${holder}) has the embedded ClickHouse in ${directory}`);
}

/** One whose supervisor was just killed ends by itself: it is waited for. */
async function lastingHolder(statusFile: string): Promise<number | undefined> {
  const deadline = performance.now() + HOLDER_PATIENCE_MS;
  for (;;) {
    const holder = await findHolder(statusFile);
    if (holder === undefined || performance.now() >= deadline) return holder;
    await delay(HOLDER_RETRY_MS);
  }
}

const HOLDER_PATIENCE_MS = 2_000;
const HOLDER_RETRY_MS = 50;

/**
 * The engine locks its status file and would refuse by itself, with a line of its own on stderr. So it is asked first,
 * where it can be (Linux), whether the process that is named in it has it open: the number alone proves nothing after
 * a crash, when another process may have got it.
 */
async function findHolder(statusFile: string): Promise<number | undefined> {
  const pid = Number(/^PID: (\d+)/m.exec(await readFile(statusFile, 'utf8').catch(() => ''))?.[1]);
  if (!Number.isInteger(pid) || pid === process.pid) return undefined;
  const descriptors = `/proc/${pid}/fd`;
  for (const name of await readdir(descriptors).catch(() => [])) {
    const target = await readlink(join(descriptors, name)).catch(() => '');
    if (target === statusFile) return pid;
  }
  return undefined;
}

/** State of the module, because the engine is state of the process: chdb binds one directory in all of it. */
let claimed: string | undefined;
