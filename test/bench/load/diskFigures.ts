/** Measures the bytes of a folder on disk. */
import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';

/** Returns the bytes of all files below; ignores files that disappear during the call. */
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
