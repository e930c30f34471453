/** Files for the data of INSERTs: the engine reads an insert's rows from a file, and none of them outlives its request. */

import { randomUUID } from 'node:crypto';
import { mkdir, open, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { ByteStream } from './contentDecoding.ts';
import { exceptions } from './httpErrors.ts';

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

async function writeBounded(path: string, data: ByteStream, maxBytes: number): Promise<number> {
  const file = await open(path, 'wx', 0o600);
  try {
    let bytes = 0;
    for await (const chunk of data) {
      bytes += chunk.length;
      if (bytes > maxBytes) throw exceptions.insertTooLarge(maxBytes);
      // Writes all of it: a single write may be cut short on a nearly full disk, and rows would be missing without a word.
      await file.appendFile(chunk);
    }
    return bytes;
  } finally {
    await file.close();
  }
}
