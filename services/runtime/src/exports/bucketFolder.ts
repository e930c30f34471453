/** Writes an export to an S3 bucket. The metadata of an object contains the facts about the file. */
import { buffer } from 'node:stream/consumers';
import { openBucketPrefix } from '../uploads/bucketPrefix.ts';
import type { S3StoreOptions } from '../uploads/s3Store.ts';
import type { ExportFolder } from './exportFolder.ts';

export async function openBucketFolder(options: S3StoreOptions, prefix: string): Promise<ExportFolder> {
  const objects = openBucketPrefix(options, prefix);
  return {
    path: `s3://${options.bucket}/${prefix}`,
    isEmpty: () => objects.isEmpty(),
    read: (name) => objects.read(name),
    write: (name, text) => objects.write(name, text),
    remove: (name) => objects.remove(name),
    finish: (name) => objects.remove(name),
    close: async () => {},
    find: async (name) => {
      const object = await objects.find(name);
      const { rows, state, sha256 } = object?.metadata ?? {};
      if (object === undefined || rows === undefined || state === undefined || sha256 === undefined)
        return undefined;
      return { rows: Number(rows), bytes: object.bytes, sha256, state };
    },
    store: async (name, measured, { rows, state }) => {
      const content = await buffer(measured.stream);
      const { sha256, bytes } = measured.measured();
      await objects.put(name, { content, sha256, metadata: { rows: `${rows}`, state, sha256 } });
      return { rows, state, sha256, bytes };
    },
  };
}
