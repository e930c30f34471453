/** Writes an export to an S3 bucket. The metadata of an object contains the facts about the file. */
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
  const memory = new FileMemory();
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
      const content = await memory.read(name, measured.stream);
      const { sha256, bytes } = measured.measured();
      await beforeChange();
      await objects.put(name, { content, sha256, metadata: { rows: `${rows}`, state, sha256 } });
      return { rows, state, sha256, bytes };
    },
  };
}

/**
 * Size of the memory before the first file, larger than most files. The operating system allocates only the pages that a process
 * uses.
 */
const FIRST_BYTES = 32 * 1024 * 1024;
/** Maximum size of a file. Every file of a plan is much smaller, because a plan limits its estimated size to about 64 MiB. */
const MAX_BYTES = 256 * 1024 * 1024;

/** Memory of one file. Every file uses the same memory, because freed memory stays in use until the next garbage collection. */
class FileMemory {
  #memory = Buffer.allocUnsafeSlow(FIRST_BYTES);

  /** Returns the content of the file `name` from a stream. The content is valid until the next call. */
  async read(name: string, stream: AsyncIterable<Uint8Array>): Promise<Buffer> {
    let length = 0;
    for await (const piece of stream) {
      const end = length + piece.length;
      if (end > MAX_BYTES)
        throw new Error(`${name} has more than 256 MiB, so it cannot be written to a bucket`);
      if (end > this.#memory.length) {
        const larger = Buffer.allocUnsafeSlow(2 * end);
        this.#memory.copy(larger, 0, 0, length);
        this.#memory = larger;
      }
      this.#memory.set(piece, length);
      length = end;
    }
    return this.#memory.subarray(0, length);
  }
}
