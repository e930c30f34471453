/** Files for the results of SELECTs: the engine formats into a file, so that a large result is never held in memory. */

import { randomUUID } from 'node:crypto';
import { closeSync, createReadStream, fstatSync, openSync, readFileSync, rmSync, unlinkSync } from 'node:fs';
import { mkdir, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { exceptions } from '../http/httpErrors.ts';
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
      return { outcome, body: takeBody(path) };
    } catch (error) {
      rmSync(path, { force: true });
      throw tooLarge.signal.aborted ? exceptions.resultTooLarge(MAX_RESULT_FILE_BYTES) : error;
    } finally {
      clearInterval(watch);
    }
  }

  return { collect };
}

/**
 * Small ones synchronously: the file has just been written, so this is a copy out of the page cache of some 30 µs, and
 * four trips through the thread pool would add half as much as the query itself took.
 */
function takeBody(path: string): ResultBody | undefined {
  const file = openIfThere(path);
  if (file === undefined) return undefined;
  const { size } = fstatSync(file);
  // An open stream goes on reading a file that has no name any more.
  unlinkSync(path);
  if (size > MAX_BUFFERED_RESULT_BYTES) {
    return { content: createReadStream('', { fd: file, highWaterMark: READ_BYTES }), bytes: size };
  }
  try {
    return { content: readFileSync(file), bytes: size };
  } finally {
    closeSync(file);
  }
}

/** Some statements do not write INTO OUTFILE although they take it (EXPLAIN AST); what is none writes nothing either. */
function openIfThere(path: string): number | undefined {
  try {
    return openSync(path, 'r');
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined;
    throw error;
  }
}

const READ_BYTES = 256 * 1024;
