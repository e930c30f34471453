/** A disk of a few MiB, which a test can fill to the last byte. Mounting one takes root, on Linux. */
import { spawnSync } from 'node:child_process';
import { closeSync, mkdtempSync, openSync, rmSync, statfsSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll } from 'vitest';

export interface SmallDisk {
  readonly path: string;
  /** Why there is none: the folder lies on a disk of any size then, and nothing must fill that. */
  readonly lacking: string | undefined;
  /** Takes what is free but for so many bytes. @returns the file that holds it */
  fill(of?: { leaveBytes?: number; name?: string }): string;
}

const CHUNK_BYTES = 64 * 1024;

/** Behind all tests of the file it is gone, after the hooks that are registered later. */
export function smallDisk(bytes: number): SmallDisk {
  const path = mkdtempSync(join(tmpdir(), 'questlog-disk-'));
  const mounted = spawnSync('mount', ['-t', 'tmpfs', '-o', `size=${bytes}`, 'tmpfs', path], {
    encoding: 'utf8',
  });
  const why = `a small disk cannot be mounted here: ${mounted.stderr || mounted.error?.message}`;
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
