/** Mounts a disk of a few MiB that a test can fill completely. Requires root on Linux, or a user namespace (`unshare -Urm`). */
import { spawnSync } from 'node:child_process';
import { closeSync, mkdtempSync, openSync, rmSync, statfsSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll } from 'vitest';

export interface SmallDisk {
  readonly path: string;
  /** Reason why the disk could not be mounted; a test must not fill the folder then. Undefined if the disk is mounted. */
  readonly lacking: string | undefined;
  /** Fills the disk except for `leaveBytes`. @returns path of the file that takes the space */
  fill(of?: { leaveBytes?: number; name?: string }): string;
}

const CHUNK_BYTES = 64 * 1024;

/** Mounts the disk, and unmounts it after all tests and hooks of the file. */
export function smallDisk(bytes: number): SmallDisk {
  const path = mkdtempSync(join(tmpdir(), 'questlog-disk-'));
  const mounted = spawnSync('mount', ['-t', 'tmpfs', '-o', `size=${bytes}`, 'tmpfs', path], {
    encoding: 'utf8',
  });
  const why = `a small disk needs root, or tests that run in "unshare -Urm": ${mounted.stderr || mounted.error?.message}`;
  const lacking = mounted.status === 0 ? undefined : why;
  afterAll(() => {
    if (lacking === undefined) spawnSync('umount', ['-l', path]);
    rmSync(path, { recursive: true, force: true });
  });
  return {
    path,
    lacking,
    fill: ({ leaveBytes = 0, name = 'ballast' } = {}) => {
      const ballast = join(path, name);
      const { bavail, bsize } = statfsSync(path);
      const file = openSync(ballast, 'w');
      const chunk = Buffer.alloc(CHUNK_BYTES);
      try {
        for (let left = bavail * bsize - leaveBytes; left > 0; left -= chunk.length) writeSync(file, chunk);
      } catch (error) {
        if (!(error instanceof Error && 'code' in error && error.code === 'ENOSPC')) throw error;
      } finally {
        closeSync(file);
      }
      return ballast;
    },
  };
}
