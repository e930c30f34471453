/** Derives the ids of a request with an idempotency key from the key, so that a retry gets the same ids. Pure. */
import { hash } from 'node:crypto';
import { uuidV8 } from '@questlog/schemas/uuid';

export interface Idempotency {
  readonly key: string;
  /** SHA-256 hash of the request body. */
  readonly digest: Buffer;
}

/**
 * Returns 8 bytes for each element. The event id ends with 62 bits of these bytes. A retry gets the same bytes, even if its
 * lane (which determines the partition) differs.
 */
export function keyedTails(
  projectId: string,
  { key, digest }: Idempotency,
  indexes: ArrayLike<number>,
): Buffer {
  const tails = Buffer.allocUnsafe(indexes.length * 8);
  const head = `${projectId}/${key}/`;
  // Reuses one buffer for all indexes with the same number of digits. A view of the buffer for each index would cost a fifth of
  // the CPU time.
  let text = NO_TEXT;
  let digits = 0;
  for (let position = 0; position < indexes.length; position++) {
    const index = String(indexes[position]);
    if (index.length !== digits) {
      digits = index.length;
      text = hashedText(`${head}${index}`, digest);
    }
    for (let i = 0; i < digits; i++) text[head.length + i] = index.charCodeAt(i);
    // Reads the hash from a text, because creating a buffer for each hash takes twice the time.
    const hashed = hash('sha256', text, 'binary');
    for (let i = 0; i < 8; i++) tails[position * 8 + i] = hashed.charCodeAt(i);
  }
  return tails;
}

const NO_TEXT: Buffer = Buffer.alloc(0);

/** Returns the append id of a record. A retry with the same idempotency key and body gets the same append id. */
export function keyedAppendId(projectId: string, { key, digest }: Idempotency, recordName: string): string {
  HASH.write(hash('sha256', hashedText(`${projectId}/${key}/${recordName}`, digest), 'binary'), 'latin1');
  return uuidV8(HASH);
}

const HASH = Buffer.allocUnsafeSlow(32);

/** Returns a view of `TEXT`, which the next call overwrites. */
function hashedText(name: string, digest: Buffer): Buffer {
  const length = TEXT.write(`${name}/`, 'latin1') + digest.copy(TEXT, name.length + 1);
  return TEXT.subarray(0, length);
}

/** Buffer for the texts of all hashes, because a new buffer for each hash costs more than the hash of a short text. */
const TEXT = Buffer.allocUnsafeSlow(256);

export function sha256(bytes: Buffer | string): Buffer {
  // The function `hash` returns a string here. If it returned a buffer, it would take twice the time, and the buffer would use
  // memory outside the heap.
  return Buffer.from(hash('sha256', bytes, 'binary'), 'latin1');
}
