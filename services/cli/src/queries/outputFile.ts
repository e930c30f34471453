/** Writes the output file of a command. */
import { createWriteStream } from 'node:fs';
import { realpath, rename, rm, stat } from 'node:fs/promises';
import type { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { messageOf } from '@questlog/runtime/process/errors';

/** End of the name of a temporary file. */
export const UNFINISHED = '.unfinished';

/**
 * Writes to a temporary file and renames the file at the end, so that a failure leaves an older file unchanged. @throws Error
 * if the write fails or if the path is not a regular file. The message names the file.
 */
export async function writeAtomically(path: string, content: Readable, signal: AbortSignal): Promise<void> {
  try {
    const target = await targetOf(path);
    const unfinished = `${target}.${process.pid}${UNFINISHED}`;
    try {
      // Flushes the file before the rename. Without the flush, a power loss could leave an empty file under the final name.
      await pipeline(content, createWriteStream(unfinished, { flags: 'wx', flush: true }), { signal });
      await rename(unfinished, target);
    } catch (error) {
      await rm(unfinished, { force: true });
      throw error;
    }
  } catch (cause) {
    throw new Error(`${path} was not written: ${messageOf(cause)}`, { cause });
  }
}

async function targetOf(path: string): Promise<string> {
  const target = await realpath(path).catch(() => path);
  const found = await stat(target).catch(() => undefined);
  if (found === undefined || found.isFile()) return target;
  throw new Error('it is not a regular file');
}
