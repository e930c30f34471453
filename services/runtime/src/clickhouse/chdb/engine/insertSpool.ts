/** Files for the data of INSERTs: the engine reads an insert's rows from a file, and none of them outlives its request. */

import { randomUUID } from 'node:crypto';
import { mkdir, open, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { ByteStream } from '../../../process/inflate.ts';
import { exceptions } from '../http/httpErrors.ts';

export interface InsertSpool {
  /**
   * Writes the data to a file, has it used and removes it, whatever happens.
   * @throws ClickHouseException when the data is larger than the bound
   */
  withFile<T>(data: ByteStream, use: (path: string, bytes: number) => Promise<T>): Promise<T>;
}

/** Empties the directory: what is in it was left by a process that was killed, and was never acknowledged. */
export async function openInsertSpool(directory: string, maxBytes: number): Promise<InsertSpool> {
  await rm(directory, { recursive: true, force: true });
  await mkdir(directory, { recursive: true });

  async function withFile<T>(data: ByteStream, use: (path: string, bytes: number) => Promise<T>): Promise<T> {
    const path = join(directory, randomUUID());
    try {
      const bytes = await writeBounded(path, data, maxBytes);
      return await use(path, bytes);
    } finally {
      await rm(path, { force: true });
    }
  }

  return { withFile };
}

/** A body comes in chunks of 64 KiB or less, each write takes a turn of the event loop: an insert is a few of them. */
const WRITE_BYTES = 4 * 1024 * 1024;

async function writeBounded(path: string, data: ByteStream, maxBytes: number): Promise<number> {
  const file = await open(path, 'wx', 0o600);
  try {
    let bytes = 0;
    let gathered: Uint8Array[] = [];
    let gatheredBytes = 0;
    const write = async (): Promise<void> => {
      // Writes all of it: a single write may be cut short on a nearly full disk, and rows would be missing without a word.
      await file.appendFile(Buffer.concat(gathered, gatheredBytes));
      gathered = [];
      gatheredBytes = 0;
    };
    for await (const chunk of data) {
      bytes += chunk.length;
      if (bytes > maxBytes) throw exceptions.insertTooLarge(maxBytes);
      gathered.push(chunk);
      gatheredBytes += chunk.length;
      if (gatheredBytes >= WRITE_BYTES) await write();
    }
    await write();
    return bytes;
  } finally {
    await file.close();
  }
}
