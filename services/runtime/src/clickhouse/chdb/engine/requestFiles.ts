/** Files of requests: the engine reads an INSERT's rows from one and writes a SELECT's result to one. None outlives its request. */

import { randomUUID } from 'node:crypto';
import {
  closeSync,
  createReadStream,
  fstatSync,
  openSync,
  readFileSync,
  rmSync,
  statfsSync,
  unlinkSync,
} from 'node:fs';
import { mkdir, open, rm, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { Readable } from 'node:stream';
import type { ByteStream } from '../../../process/inflate.ts';
import { exceptions } from '../http/httpErrors.ts';
import {
  MAX_BUFFERED_RESULT_BYTES,
  MAX_INSERT_BODY_BYTES,
  MAX_RESULT_FILE_BYTES,
  RESULT_CHECK_INTERVAL_MS,
} from './limits.ts';

/** What is to be sent: a small result as bytes, a large one as a stream that must be read or destroyed. */
export interface ResultBody {
  content: Buffer | Readable;
  bytes: number;
}

export interface RequestFiles {
  /**
   * Writes an INSERT's data to a file, has it used and removes it, whatever happens.
   * @throws ClickHouseException when the data are larger than the bound
   */
  withData<T>(data: ByteStream, use: (path: string, bytes: number) => Promise<T>): Promise<T>;
  /**
   * Has a result written to a file and takes it from there; the body is undefined when nothing was written.
   * The signal that `write` gets also aborts when the file grows too large.
   * @throws ClickHouseException when it does, or when the disk may have had no room for all of it
   */
  collect<T>(
    signal: AbortSignal,
    write: (path: string, signal: AbortSignal) => Promise<T>,
  ): Promise<{ outcome: T; body: ResultBody | undefined }>;
}

/** Empties the folders: what is in them was left by a process that was killed, and was never acknowledged. */
export async function openRequestFiles(directory: string): Promise<RequestFiles> {
  const [incoming, outgoing] = [join(directory, 'incoming'), join(directory, 'outgoing')];
  for (const folder of [incoming, outgoing]) {
    await rm(folder, { recursive: true, force: true });
    await mkdir(folder, { recursive: true });
  }
  return {
    withData: async (data, use) => {
      const path = join(incoming, randomUUID());
      try {
        return await use(path, await writeBounded(path, data));
      } finally {
        await rm(path, { force: true });
      }
    },
    collect: (signal, write) => collect(join(outgoing, randomUUID()), signal, write),
  };
}

/** A body comes in chunks of 64 KiB or less, each write takes a turn of the event loop: an insert is a few of them. */
const WRITE_BYTES = 4 * 1024 * 1024;

async function writeBounded(path: string, data: ByteStream): Promise<number> {
  const file = await open(path, 'wx', 0o600);
  try {
    let bytes = 0;
    let pending: Uint8Array[] = [];
    let pendingBytes = 0;
    const write = async (): Promise<void> => {
      // Writes all of it: a single write may be cut short on a nearly full disk, and rows would be missing without a word.
      await file.appendFile(Buffer.concat(pending, pendingBytes));
      pending = [];
      pendingBytes = 0;
    };
    for await (const chunk of data) {
      bytes += chunk.length;
      if (bytes > MAX_INSERT_BODY_BYTES) throw exceptions.tooLarge(INSERT_TOO_LARGE);
      pending.push(chunk);
      pendingBytes += chunk.length;
      if (pendingBytes >= WRITE_BYTES) await write();
    }
    await write();
    return bytes;
  } finally {
    await file.close();
  }
}

const INSERT_TOO_LARGE = `The data of one INSERT is larger than ${MAX_INSERT_BODY_BYTES} bytes; send it in several.`;

async function collect<T>(
  path: string,
  signal: AbortSignal,
  write: (path: string, signal: AbortSignal) => Promise<T>,
): Promise<{ outcome: T; body: ResultBody | undefined }> {
  const tooLarge = new AbortController();
  const watch = setInterval(async () => {
    const { size } = await stat(path).catch(() => ({ size: 0 }));
    if (size > MAX_RESULT_FILE_BYTES) tooLarge.abort();
  }, RESULT_CHECK_INTERVAL_MS);
  try {
    const outcome = await write(path, AbortSignal.any([signal, tooLarge.signal]));
    return { outcome, body: takeBody(path) };
  } catch (error) {
    rmSync(path, { force: true });
    throw tooLarge.signal.aborted ? exceptions.resultTooLarge(RESULT_TOO_LARGE) : error;
  } finally {
    clearInterval(watch);
  }
}

const RESULT_TOO_LARGE = `Limit for result exceeded, max bytes of its text: ${MAX_RESULT_FILE_BYTES}.`;

/**
 * Small ones synchronously: the file has just been written, so this is a copy out of the page cache of some 30 µs, and
 * four trips through the thread pool would add half as much as the query itself took.
 */
function takeBody(path: string): ResultBody | undefined {
  const file = openIfExists(path);
  const size = file === undefined ? 0 : fstatSync(file).size;
  if (size % PAGE_BYTES === 0 && isDiskFull(dirname(path))) {
    if (file !== undefined) closeSync(file);
    throw exceptions.notEnoughSpace(DISK_FULL);
  }
  if (file === undefined) return undefined;
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

/**
 * The engine calls a result whole of which a full disk took only the beginning, or nothing. Such a file ends where a page
 * ends. By now something else may have given a little room back.
 */
const PAGE_BYTES = 4096;
const MIN_FREE_BYTES = 16 * 1024 * 1024;
const MIN_FREE_FRACTION = 0.05;
const DISK_FULL = 'The disk is full: it may have had no room for all of the result.';

export function isDiskFull(folder: string): boolean {
  const { bavail, blocks, bsize } = statfsSync(folder);
  return bavail * bsize < Math.min(MIN_FREE_BYTES, MIN_FREE_FRACTION * blocks * bsize);
}

/** Some statements do not write INTO OUTFILE although they take it (EXPLAIN AST); what is none writes nothing either. */
function openIfExists(path: string): number | undefined {
  try {
    return openSync(path, 'r');
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined;
    throw error;
  }
}

const READ_BYTES = 256 * 1024;
