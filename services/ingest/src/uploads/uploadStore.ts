/** The port to where uploads lie. No topic tells of them: what a store has is what there is. */
import type { Readable } from 'node:stream';
import type { UploadDescription, UploadKey, UploadTarget } from './core/uploadKey.ts';

/** All methods throw Unavailable where the store does not answer, or takes no more. */
export interface UploadStore {
  /** Whether an address bounds the bytes only where their number is known. */
  readonly isSizeNeeded: boolean;
  /** Keeps what was told of a file, before its bytes come. */
  describe(key: UploadKey, description: UploadDescription): Promise<void>;
  /**
   * The absolute address that takes the bytes by PUT: whole, or nothing of them is kept.
   * @param baseUrl where games reach this ingest.
   */
  address(target: UploadTarget, baseUrl: string): Promise<string>;
  /** Undefined where no such upload was described, or it was removed. */
  find(key: UploadKey): Promise<FoundUpload | undefined>;
  /** The bytes of an upload that `find` found with its size. The caller reads them to the end or destroys the stream. */
  read(key: UploadKey): Promise<Readable>;
  /** The uploads of a day (`yyyy-mm-dd`), with and without bytes. */
  list(day: string): AsyncIterable<UploadKey>;
  /** Bytes and description; nothing where they are gone. */
  remove(key: UploadKey): Promise<void>;
  /** Where the addresses lead to ingest itself; undefined where they lead elsewhere. */
  readonly receiver: UploadReceiver | undefined;
}

export interface FoundUpload {
  readonly description: UploadDescription;
  /** Of the stored bytes; undefined until they have come. */
  readonly sizeBytes: number | undefined;
}

export interface UploadReceiver {
  readonly signingKey: Buffer;
  /**
   * Stores the bytes if the iteration ends, keeps nothing if it throws.
   * @returns how many there were.
   * @throws Rejected `conflict` where other bytes are stored already; whatever the iteration throws.
   */
  receive(key: UploadKey, bytes: AsyncIterable<Buffer>): Promise<number>;
}
