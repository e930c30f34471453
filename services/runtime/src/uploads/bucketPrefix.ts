/** Reads and writes the objects of an S3 bucket whose keys start with a prefix. */
import {
  DeleteObjectCommand,
  GetObjectCommand,
  HeadObjectCommand,
  ListObjectsV2Command,
  PutObjectCommand,
} from '@aws-sdk/client-s3';
import { messageOf } from '../process/errors.ts';
import { clientOf, isMissing, type S3StoreOptions } from './s3Store.ts';

export interface StoredObject {
  readonly bytes: number;
  readonly metadata: Readonly<Record<string, string>>;
}

interface NewObject extends Pick<StoredObject, 'metadata'> {
  readonly content: Buffer;
  readonly sha256: string;
}

export interface BucketPrefix {
  isEmpty(): Promise<boolean>;
  read(name: string): Promise<string | undefined>;
  write(name: string, text: string): Promise<void>;
  find(name: string): Promise<StoredObject | undefined>;
  /** Stores an object. The object appears only if S3 has received all bytes and their checksum matches. */
  put(name: string, object: NewObject): Promise<void>;
  remove(name: string): Promise<void>;
  /** Closes the connections to S3. */
  close(): void;
}

/** @param prefix start of the keys, without a slash at the end */
export function openBucketPrefix(options: S3StoreOptions, prefix: string): BucketPrefix {
  const s3 = clientOf(options, options.endpoint);
  const Bucket = options.bucket;
  const objectOf = (name: string) => ({ Bucket, Key: `${prefix}/${name}` });
  const named = async <T>(name: string, request: Promise<T>): Promise<T> =>
    await request.catch((cause: unknown) => {
      throw new Error(`s3://${Bucket}/${prefix}/${name}: ${messageOf(cause)}`, { cause });
    });
  const found = async <T>(name: string, request: Promise<T>): Promise<T | undefined> =>
    await named(
      name,
      request.catch((error: unknown) => {
        if (isMissing(error)) return undefined;
        throw error;
      }),
    );
  return {
    isEmpty: async () => {
      const page = await named(
        '',
        s3.send(new ListObjectsV2Command({ Bucket, Prefix: `${prefix}/`, MaxKeys: 1 })),
      );
      return (page.Contents ?? []).length === 0;
    },
    read: async (name) => {
      const object = await found(name, s3.send(new GetObjectCommand(objectOf(name))));
      return await object?.Body?.transformToString();
    },
    write: async (name, Body) =>
      void (await named(name, s3.send(new PutObjectCommand({ ...objectOf(name), Body })))),
    find: async (name) => {
      const object = await found(name, s3.send(new HeadObjectCommand(objectOf(name))));
      return object && { bytes: object.ContentLength ?? 0, metadata: object.Metadata ?? {} };
    },
    put: async (name, { content, sha256, metadata }) => {
      const object = {
        ...objectOf(name),
        // The S3 client retries only requests whose body is not a stream.
        ...{ Body: content, Metadata: { ...metadata } },
        ChecksumSHA256: Buffer.from(sha256, 'hex').toString('base64'),
      };
      await named(name, s3.send(new PutObjectCommand(object)));
    },
    remove: async (name) => void (await named(name, s3.send(new DeleteObjectCommand(objectOf(name))))),
    close: () => s3.destroy(),
  };
}
