/** How many bytes a folder takes on disk. */
import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';

/** Sums all files below; one that disappears meanwhile counts nothing. */
export function bytesBelow(directory: string): number {
  let bytes = 0;
  for (const entry of readdirSync(directory, { recursive: true, withFileTypes: true })) {
    if (entry.isFile()) bytes += sizeOf(join(entry.parentPath, entry.name));
  }
  return bytes;
}

function sizeOf(path: string): number {
  try {
    return statSync(path).size;
  } catch {
    return 0;
  }
}
