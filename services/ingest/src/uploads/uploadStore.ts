/** Port for the storage of uploads, which no topic contains. */
import type { Readable } from 'node:stream';
import type { UploadDescription, UploadKey, UploadTarget } from './core/uploadKey.ts';

/** All methods throw Unavailable if the store does not answer or is full. */
export interface UploadStore {
  /** True if an address can limit the bytes only with a stated size. */
  readonly isSizeNeeded: boolean;
  describe(key: UploadKey, description: UploadDescription): Promise<void>;
  /**
   * Returns the absolute address for the PUT. Either all bytes are stored or none.
   * @param baseUrl address at which games reach this ingest.
   */
  address(target: UploadTarget, baseUrl: string): Promise<string>;
  find(key: UploadKey): Promise<FoundUpload | undefined>;
  /** Returns the bytes. The caller must read the stream to its end or destroy it. */
  read(key: UploadKey): Promise<Readable>;
  /** Lists the uploads of a day (`yyyy-mm-dd`), including uploads without bytes. */
  list(day: string): AsyncIterable<UploadKey>;
  remove(key: UploadKey): Promise<void>;
  /** Receiver of the bytes. Undefined if the addresses do not lead to ingest. */
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
   * Keeps no bytes if the iteration throws.
   * @returns the number of bytes. @throws Rejected `conflict` if other bytes are stored; errors of the iteration.
   */
  receive(key: UploadKey, bytes: AsyncIterable<Buffer>): Promise<number>;
}
