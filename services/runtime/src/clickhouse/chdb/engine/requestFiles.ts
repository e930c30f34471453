/** Temporary files of requests. A file contains the rows of an INSERT or the result of a SELECT. */

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

/** Body of a result: a Buffer if the result is small, otherwise a stream. The receiver must read or destroy the stream. */
export interface ResultBody {
  content: Buffer | Readable;
  bytes: number;
}

export interface RequestFiles {
  /** Writes the data of an INSERT to a file and calls `use`. @throws ClickHouseException if the data exceeds the limit. */
  withData<T>(data: ByteStream, use: (path: string, bytes: number) => Promise<T>): Promise<T>;
  /**
   * Calls `write` with the path of a file. `write` must write a query result to this file. Returns the content of the file.
   * @throws ClickHouseException if the file is too large or the disk is full.
   */
  collect<T>(
    signal: AbortSignal,
    write: (path: string, signal: AbortSignal) => Promise<T>,
  ): Promise<{ outcome: T; body: ResultBody | undefined }>;
}

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

const WRITE_BYTES = 4 * 1024 * 1024;

async function writeBounded(path: string, data: ByteStream): Promise<number> {
  const file = await open(path, 'wx', 0o600);
  try {
    let bytes = 0;
    let pending: Uint8Array[] = [];
    let pendingBytes = 0;
    const write = async (): Promise<void> => {
      // `appendFile` writes all bytes. On a nearly full disk, `write` can write fewer bytes without an error.
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

const INSERT_TOO_LARGE = `The data of one INSERT is larger than ${MAX_INSERT_BODY_BYTES} bytes; send several INSERTs.`;

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
 * Reads the file of a result synchronously, because asynchronous calls would make a small query 50 % slower. A synchronous read
 * of a small file takes 30 µs.
 */
function takeBody(path: string): ResultBody | undefined {
  const file = openIfExists(path);
  const size = file === undefined ? 0 : fstatSync(file).size;
  if (size % PAGE_BYTES === 0 && isDiskFull(dirname(path))) {
    if (file !== undefined) closeSync(file);
    throw exceptions.notEnoughSpace(DISK_FULL);
  }
  if (file === undefined) return undefined;
  // Deletes the file before the result is read, so that no later step has to delete it. The open file can still be read.
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
 * Size of a memory page in bytes. On a full disk, the engine can stop writing a result after a whole page, without an error. A
 * result is therefore possibly incomplete if its size is a multiple of the page size.
 */
const PAGE_BYTES = 4096;
const MIN_FREE_BYTES = 16 * 1024 * 1024;
const MIN_FREE_FRACTION = 0.05;
const DISK_FULL = 'The disk is full: the result may be incomplete.';

export function isDiskFull(folder: string): boolean {
  const { bavail, blocks, bsize } = statfsSync(folder);
  return bavail * bsize < Math.min(MIN_FREE_BYTES, MIN_FREE_FRACTION * blocks * bsize);
}

/** Opens a file if it exists. Some statements, such as EXPLAIN AST, ignore INTO OUTFILE and write no file. */
function openIfExists(path: string): number | undefined {
  try {
    return openSync(path, 'r');
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined;
    throw error;
  }
}

const READ_BYTES = 256 * 1024;
