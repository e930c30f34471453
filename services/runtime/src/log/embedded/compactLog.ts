/** Compacts the file of a closed log: removes the bytes that deleted records left in the file. */
import { existsSync, statfsSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { messageOf, StartRefused, Unavailable } from '../../process/errors.ts';
import { FILE_NAME, openDatabase } from './database.ts';

export interface CompactedLog {
  readonly bytesBefore: number;
  readonly bytesAfter: number;
}

const MIB = 1024 * 1024;
/** `VACUUM` writes the whole file two times: to a temporary file and to the write-ahead log. */
const COPIES = 2;
/** Factor by which frame headers and pointer map pages increase the size of a `VACUUM` copy. */
const OVERHEAD = 1.01;

/**
 * Rewrites the log's file with `VACUUM` in one transaction. If the process is killed, the file is either unchanged or
 * completely rewritten.
 * @param reservedBytes a function that returns the number of bytes that must stay free on the disk.
 * @throws StartRefused if the log is missing or another process uses the log.
 * @throws Unavailable if the disk has too little free space.
 */
export function compactLog(directory: string, reservedBytes: () => number = () => 0): CompactedLog {
  const path = join(directory, FILE_NAME);
  if (!existsSync(path)) throw new StartRefused(`there is no log in ${directory}`);
  const database = openDatabase(directory);
  const { sqlite, pageBytes } = database;
  try {
    database.emptyWal();
    const bytesBefore = statSync(path).size;
    const count = (pragma: string): number => Number(sqlite.prepare(`PRAGMA ${pragma}`).get()?.[pragma]);
    const usedBytes = (count('page_count') - count('freelist_count')) * pageBytes;
    checkFreeSpace(directory, usedBytes * COPIES * OVERHEAD + reservedBytes());
    // Keeps temporary files in the log's directory, because the default directory may be a small in-memory file system.
    sqlite.exec(`PRAGMA temp_store_directory = '${directory.replaceAll("'", "''")}'`);
    sqlite.exec('PRAGMA auto_vacuum = INCREMENTAL; VACUUM');
    database.emptyWal();
    return { bytesBefore, bytesAfter: statSync(path).size };
  } catch (error) {
    if (error instanceof Unavailable) throw error;
    throw new Unavailable(`the log was not compacted: ${messageOf(error)}; nothing was lost`, {
      cause: error,
    });
  } finally {
    database.close();
  }
}

function checkFreeSpace(directory: string, neededBytes: number): void {
  const { bavail, bsize } = statfsSync(directory);
  if (bavail * bsize >= neededBytes) return;
  const [has, needs] = [bavail * bsize, neededBytes].map((bytes) => Math.ceil(bytes / MIB));
  throw new Unavailable(
    `compacting needs ${needs} MiB of free disk, and ${has} MiB are free for ${directory}; nothing was changed`,
  );
}
