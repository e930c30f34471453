/**
 * Writes an export to an S3 bucket. A file is first written to a temporary file of this machine, because S3 needs the size and the
 * checksum before the content. The metadata of an object contains the facts about the file.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { openBucketPrefix } from '@questlog/runtime/uploads/bucketPrefix';
import type { S3StoreOptions } from '@questlog/runtime/uploads/s3Store';
import { writeAtomically } from '../queries/outputFile.ts';
import type { ExportFolder } from './exportFolder.ts';

export async function openBucketFolder(options: S3StoreOptions, prefix: string): Promise<ExportFolder> {
  const objects = openBucketPrefix(options, prefix);
  return {
    path: `s3://${options.bucket}/${prefix}`,
    isEmpty: () => objects.isEmpty(),
    read: (name) => objects.read(name),
    write: (name, text) => objects.write(name, text),
    finish: (name) => objects.remove(name),
    close: async () => {},
    find: async (name) => {
      const object = await objects.find(name);
      const { rows, state, sha256 } = object?.metadata ?? {};
      if (object === undefined || rows === undefined || state === undefined || sha256 === undefined)
        return undefined;
      return { rows: Number(rows), bytes: object.bytes, sha256, state };
    },
    store: async (name, content, chunk) => {
      const folder = await mkdtemp(join(tmpdir(), 'questlog-export-'));
      try {
        const path = join(folder, 'chunk');
        await writeAtomically(path, content.stream, content.signal);
        const stored = { ...chunk, ...content.measured() };
        const { rows, state, sha256 } = stored;
        await objects.put(name, {
          path,
          bytes: stored.bytes,
          sha256,
          metadata: { rows: `${rows}`, state, sha256 },
        });
        return stored;
      } finally {
        await rm(folder, { recursive: true, force: true });
      }
    },
  };
}
