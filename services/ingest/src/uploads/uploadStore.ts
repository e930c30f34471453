/** Port for the storage of uploads. Uploads are not stored in topics. */
import type { Readable } from 'node:stream';
import type { UploadDescription, UploadKey, UploadTarget } from './core/uploadKey.ts';

/** Store for uploads. All methods throw Unavailable if the store does not answer or is full. */
export interface UploadStore {
  /** True if the request for an upload must state a size, because an address cannot limit the bytes without a size. */
  readonly isSizeNeeded: boolean;
  describe(key: UploadKey, description: UploadDescription): Promise<void>;
  /**
   * Returns the absolute address to which the client sends the bytes with PUT. The store keeps either all bytes or none.
   * @param baseUrl address at which games reach this ingest.
   */
  address(target: UploadTarget, baseUrl: string): Promise<string>;
  find(key: UploadKey): Promise<FoundUpload | undefined>;
  /** Returns the bytes. The caller must read the stream to its end or destroy the stream. */
  read(key: UploadKey): Promise<Readable>;
  /** Lists the uploads of a day (`yyyy-mm-dd`). Includes uploads without bytes. */
  list(day: string): AsyncIterable<UploadKey>;
  remove(key: UploadKey): Promise<void>;
  /** Receiver of the bytes. Undefined if clients do not send the bytes to ingest. */
  readonly receiver: UploadReceiver | undefined;
}

export interface FoundUpload {
  readonly description: UploadDescription;
  /** Size of the stored bytes. Undefined if the bytes have not arrived. */
  readonly sizeBytes: number | undefined;
}

export interface UploadReceiver {
  readonly signingKey: Buffer;
  /**
   * Stores the bytes. Keeps no bytes if the iteration throws.
   * @returns the number of bytes.
   * @throws Rejected `conflict` if the upload already has other bytes; errors of the iteration.
   */
  receive(key: UploadKey, bytes: AsyncIterable<Buffer>): Promise<number>;
}
