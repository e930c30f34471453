/** A file that a command writes: it appears under its name only once it is complete. */
import { createWriteStream } from 'node:fs';
import { realpath, rename, rm, stat } from 'node:fs/promises';
import type { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { messageOf } from '@questlog/runtime/process/errors';

/**
 * Writes the content beside the file and renames it at the end. On a failure the name is as it was before.
 * @param signal ends the writing.
 * @throws Error naming the file.
 */
export async function writeWhole(path: string, content: Readable, signal: AbortSignal): Promise<void> {
  try {
    const target = await targetOf(path);
    const unfinished = `${target}.${process.pid}.unfinished`;
    try {
      // Flushed before the rename, so that a power cut does not leave a file without its content.
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

/** Returns what a link leads to. @throws Error for what a rename would replace by a file: a folder, a device, a pipe. */
async function targetOf(path: string): Promise<string> {
  const target = await realpath(path).catch(() => path);
  const found = await stat(target).catch(() => undefined);
  if (found === undefined || found.isFile()) return target;
  throw new Error('it is no regular file');
}
