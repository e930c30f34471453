/** Interface of a store for uploaded files. The log does not contain uploaded files. */
import type { Readable } from 'node:stream';
import type { BoundedResource } from '../process/metrics.ts';
import type { UploadDescription, UploadKey, UploadTarget } from './core/uploadKey.ts';

/** Store for uploaded files. All methods throw Unavailable if the store does not answer or is full. */
export interface UploadStore {
  /** True if a client must state the file size before the upload. S3 can limit the size of an upload only to an exact size. */
  readonly isSizeNeeded: boolean;
  describe(key: UploadKey, description: UploadDescription): Promise<void>;
  /** Returns the absolute URL for the PUT of the file. @param baseUrl address under which games reach this ingest process */
  address(target: UploadTarget, baseUrl: string): Promise<string>;
  find(key: UploadKey): Promise<FoundUpload | undefined>;
  /** Returns the bytes of a file. The caller must read the stream to its end or destroy the stream. */
  read(key: UploadKey): Promise<Readable>;
  /** Lists the uploads of a UTC day (`yyyy-mm-dd`). The list includes uploads whose file has not arrived. */
  list(day: string): AsyncIterable<UploadKey>;
  remove(key: UploadKey): Promise<void>;
  /** Object that receives the bytes of uploaded files. Undefined if clients send files directly to S3. */
  readonly receiver: UploadReceiver | undefined;
  /** Connections to S3. Undefined if the files are stored in a folder. */
  readonly connections?: BoundedResource;
}

export interface FoundUpload {
  readonly description: UploadDescription;
  /** Size of the stored file in bytes. Undefined if the file has not arrived. */
  readonly sizeBytes: number | undefined;
}

export interface UploadReceiver {
  readonly signingKey: Buffer;
  /**
   * Stores the bytes and returns their number. If the iteration throws, the store keeps no bytes.
   * @throws Rejected `conflict` if a different file was already stored for the upload
   */
  receive(key: UploadKey, bytes: AsyncIterable<Buffer>): Promise<number>;
}
