/** Port for the storage of uploads. No topic contains uploads, so the store is the only source. */
import type { Readable } from 'node:stream';
import type { UploadDescription, UploadKey, UploadTarget } from './core/uploadKey.ts';

/** All methods throw Unavailable if the store does not answer or is full. */
export interface UploadStore {
  /** True if an upload address can limit the bytes only with a known size. */
  readonly isSizeNeeded: boolean;
  /** Stores the description of a file before its bytes arrive. */
  describe(key: UploadKey, description: UploadDescription): Promise<void>;
  /**
   * Returns the absolute address for the PUT of the bytes. Either all bytes are stored or none.
   * @param baseUrl address at which games reach this ingest.
   */
  address(target: UploadTarget, baseUrl: string): Promise<string>;
  /** Returns undefined if the upload does not exist or was removed. */
  find(key: UploadKey): Promise<FoundUpload | undefined>;
  /**
   * Returns the bytes of an upload for which `find` returned a size. The caller must read the stream to its end or
   * destroy it.
   */
  read(key: UploadKey): Promise<Readable>;
  /** Lists the uploads of a day (`yyyy-mm-dd`), with and without bytes. */
  list(day: string): AsyncIterable<UploadKey>;
  /** Removes the bytes and the description, if they exist. */
  remove(key: UploadKey): Promise<void>;
  /** Undefined if the upload addresses do not lead to ingest. */
  readonly receiver: UploadReceiver | undefined;
}

export interface FoundUpload {
  readonly description: UploadDescription;
  /** Size of the stored bytes. Undefined until they have arrived. */
  readonly sizeBytes: number | undefined;
}

export interface UploadReceiver {
  readonly signingKey: Buffer;
  /**
   * Stores the bytes if the iteration ends, and nothing if it throws.
   * @returns the number of bytes.
   * @throws Rejected `conflict` if other bytes are stored already; errors of the iteration.
   */
  receive(key: UploadKey, bytes: AsyncIterable<Buffer>): Promise<number>;
}
