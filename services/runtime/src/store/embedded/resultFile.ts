/** Files for the results of SELECTs: the engine formats into a file, so that a large result is never held in memory. */

import { randomUUID } from 'node:crypto';
import { mkdir, open, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { exceptions } from './httpErrors.ts';
import { MAX_BUFFERED_RESULT_BYTES, MAX_RESULT_FILE_BYTES, RESULT_CHECK_MS } from './limits.ts';

/** What is to be sent: a small result as bytes, a large one as a stream that must be read or destroyed. */
export interface ResultBody {
  content: Buffer | Readable;
  bytes: number;
}

export interface ResultFiles {
  /**
   * Has a file written and takes it from there; the body is undefined when nothing was written.
   * The signal that `write` gets also aborts when the file grows too large.
   * @throws ClickHouseException when it does
   */
  collect<T>(
    signal: AbortSignal,
    write: (path: string, signal: AbortSignal) => Promise<T>,
  ): Promise<{ outcome: T; body: ResultBody | undefined }>;
}

/** Empties the directory: what is in it was left by a process that was killed. */
export async function openResultFiles(directory: string): Promise<ResultFiles> {
  await rm(directory, { recursive: true, force: true });
  await mkdir(directory, { recursive: true });

  async function collect<T>(signal: AbortSignal, write: (path: string, signal: AbortSignal) => Promise<T>) {
    const path = join(directory, randomUUID());
    const tooLarge = new AbortController();
    const watch = setInterval(async () => {
      const { size } = await stat(path).catch(() => ({ size: 0 }));
      if (size > MAX_RESULT_FILE_BYTES) tooLarge.abort();
    }, RESULT_CHECK_MS);
    try {
      const outcome = await write(path, AbortSignal.any([signal, tooLarge.signal]));
      return { outcome, body: await takeBody(path) };
    } catch (error) {
      throw tooLarge.signal.aborted ? exceptions.resultTooLarge(MAX_RESULT_FILE_BYTES) : error;
    } finally {
      clearInterval(watch);
      // An open stream goes on reading a file that has no name any more.
      await rm(path, { force: true });
    }
  }

  return { collect };
}

async function takeBody(path: string): Promise<ResultBody | undefined> {
  const file = await open(path).catch(ignoreMissing);
  if (file === undefined) return undefined;
  const { size } = await file.stat();
  if (size > MAX_BUFFERED_RESULT_BYTES) {
    return { content: file.createReadStream({ highWaterMark: READ_BYTES }), bytes: size };
  }
  try {
    return { content: await file.readFile(), bytes: size };
  } finally {
    await file.close();
  }
}

/** Some statements do not write INTO OUTFILE although they take it (EXPLAIN AST). */
function ignoreMissing(error: unknown): undefined {
  if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined;
  throw error;
}

const READ_BYTES = 256 * 1024;
