/** Gives free pages of the log's file back to the file system, in chunks. */
import type { LogDatabase } from '../database.ts';

/**
 * Returns free pages of one bounded chunk if there are more than the file may keep for the next records. Returns whether
 * there may be more. A file without `auto_vacuum`, which an older version made, keeps them all until `questlog compact`.
 */
export function vacuumChunk(database: LogDatabase): boolean {
  if (!database.returnsSpace) return false;
  const count = (pragma: string): number =>
    database.read(() => Number(database.sqlite.prepare(`PRAGMA ${pragma}`).get()?.[pragma]));
  const free = count('freelist_count');
  const surplus = free - Math.floor(count('page_count') * KEPT_SHARE);
  if (surplus <= 0) return false;
  const pages = Math.min(surplus, CHUNK_PAGES);
  database.write(() => database.sqlite.exec(`PRAGMA incremental_vacuum(${pages})`));
  return count('freelist_count') < free;
}

/** Each free page that is not kept moves a page from the end of the file, and the next records extend the file again. */
const KEPT_SHARE = 0.2;

/** 1 MiB: one chunk blocks the event loop for a few milliseconds. */
const CHUNK_PAGES = 128;
