/** Writes an export to an S3 bucket. The metadata of an object contains the facts about the file. */
import { buffer } from 'node:stream/consumers';
import { openBucketPrefix } from '../uploads/bucketPrefix.ts';
import type { S3StoreOptions } from '../uploads/s3Store.ts';
import type { ExportFolder } from './exportFolder.ts';

/** Splits a path `s3://bucket/prefix`. */
export function bucketAndPrefix(path: string): { bucket: string; prefix: string } {
  const [, bucket = '', prefix = ''] = /^s3:\/\/([^/]+)\/(.*)$/.exec(path) ?? [];
  return { bucket, prefix };
}

/** @param beforeChange called before each change of an object. If it throws, the object does not change. */
export async function openBucketFolder(
  options: S3StoreOptions,
  prefix: string,
  beforeChange = async () => {},
): Promise<ExportFolder> {
  const objects = openBucketPrefix(options, prefix);
  const remove = async (name: string) => {
    await beforeChange();
    await objects.remove(name);
  };
  return {
    path: `s3://${options.bucket}/${prefix}`,
    isEmpty: () => objects.isEmpty(),
    read: (name) => objects.read(name),
    write: async (name, text) => {
      await beforeChange();
      await objects.write(name, text);
    },
    remove,
    finish: remove,
    close: async () => objects.close(),
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
      await beforeChange();
      await objects.put(name, { content, sha256, metadata: { rows: `${rows}`, state, sha256 } });
      return { rows, state, sha256, bytes };
    },
  };
}
