/** Rewrites the file of a log that no process has open, so that it holds the records that are left and nothing else. */
import { existsSync, statfsSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { messageOf, StartRefused, Unavailable } from '../../process/errors.ts';
import { FILE_NAME, openDatabase } from './database.ts';

export interface CompactedLog {
  readonly bytesBefore: number;
  readonly bytesAfter: number;
}

const MIB = 1024 * 1024;
/** `VACUUM` writes a copy into a temporary file and then into the write-ahead log. */
const COPIES = 2;
/** For the headers of the write-ahead log's frames, and for pointer map pages. */
const OVERHEAD = 1.01;

/**
 * A process that is killed meanwhile leaves the file as it was, or rewritten: `VACUUM` is one transaction.
 * @param reservedBytes returns how many bytes must stay free on the disk.
 * @throws StartRefused if there is no log, or another process has it open; Unavailable if the disk has too little room.
 *   Nothing was changed then.
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
    checkRoom(directory, usedBytes * COPIES * OVERHEAD + reservedBytes());
    // Beside the log, because the disk of temporary files may be a small one in memory.
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

function checkRoom(directory: string, neededBytes: number): void {
  const { bavail, bsize } = statfsSync(directory);
  if (bavail * bsize >= neededBytes) return;
  const [has, needs] = [bavail * bsize, neededBytes].map((bytes) => Math.ceil(bytes / MIB));
  throw new Unavailable(
    `compacting needs ${needs} MiB of free disk, and ${has} MiB are free for ${directory}; nothing was changed`,
  );
}
