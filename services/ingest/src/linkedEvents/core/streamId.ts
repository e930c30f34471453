/** Encodes and decodes the message ids of a stream of linked events. An id is an encrypted position in the log. Pure. */
import {
  type CursorCipher,
  FORMAT_VERSION,
  OVERHEAD_BYTES,
} from '@questlog/runtime/cursors/core/cursorCipher';
import { bytesOfUuid, UUID_BYTES, uuidOf } from '@questlog/schemas/uuid';

export interface StreamPosition {
  readonly logId: string;
  readonly nextOffsets: readonly number[];
}

export interface TopicBounds {
  readonly logId: string;
  readonly startOffsets: readonly number[];
  readonly endOffsets: readonly number[];
}

/**
 * Encodes a position in 16 bytes plus 6 bytes per partition. A short form matters, because every message contains a position.
 */
export function positionBytes({ logId, nextOffsets }: StreamPosition): Buffer {
  const bytes = Buffer.alloc(UUID_BYTES + nextOffsets.length * OFFSET_BYTES);
  bytesOfUuid(logId).copy(bytes);
  for (const [partition, offset] of nextOffsets.entries()) {
    bytes.writeUIntBE(offset, UUID_BYTES + partition * OFFSET_BYTES, OFFSET_BYTES);
  }
  return bytes;
}

/** True if the text can be a message id. Checks only the form, and does not decrypt the id. */
export function isStreamId(text: string): boolean {
  const bytes = Buffer.from(text, 'base64url');
  // Rejects characters that are not in base64url, because `Buffer.from` ignores these characters.
  if (bytes.toString('base64url') !== text) return false;
  if (bytes[0] === UNENCRYPTED) return bytes.length > UUID_BYTES + 1;
  const offsetBytes = bytes.length - OVERHEAD_BYTES - UUID_BYTES;
  return bytes[0] === FORMAT_VERSION && offsetBytes > 0 && offsetBytes % OFFSET_BYTES === 0;
}

/**
 * Decrypts a message id. Returns `start` if the id has an old format, or was created before the log was replaced. From `start`,
 * the client receives some linked events again, and recognizes them by the field `version`.
 */
export function positionIn(id: string, cipher: CursorCipher): StreamPosition | 'start' {
  const bytes = cipher.decrypt(id);
  if (bytes === undefined) return 'start';
  const count = (bytes.length - UUID_BYTES) / OFFSET_BYTES;
  const nextOffsets = Array.from({ length: count }, (_, partition) =>
    bytes.readUIntBE(UUID_BYTES + partition * OFFSET_BYTES, OFFSET_BYTES),
  );
  return { logId: uuidOf(bytes), nextOffsets };
}

/**
 * Returns the offsets from which a stream reads. Reads from the start of the log if the position is above the end offset or
 * from another log. Returns undefined if the number of partitions has changed.
 */
export function offsetsFrom(
  from: StreamPosition | 'start' | 'end',
  topic: TopicBounds,
): number[] | undefined {
  if (from === 'end') return [...topic.endOffsets];
  if (from === 'start' || from.logId !== topic.logId) return [...topic.startOffsets];
  if (from.nextOffsets.length !== topic.startOffsets.length) return undefined;
  return topic.startOffsets.map((start, partition) => {
    const nextOffset = from.nextOffsets[partition] ?? 0;
    return nextOffset > (topic.endOffsets[partition] ?? 0) ? start : Math.max(nextOffset, start);
  });
}

export function expiredPartitions(from: StreamPosition | 'start', topic: TopicBounds): number[] {
  const isKnown = from !== 'start' && from.logId === topic.logId;
  return topic.startOffsets.flatMap((start, partition) => {
    const nextOffset = isKnown ? (from.nextOffsets[partition] ?? 0) : 0;
    return nextOffset < start ? [partition] : [];
  });
}

/** First byte of the message ids of an earlier Questlog version, which were not encrypted. */
const UNENCRYPTED = 1;
/** Bytes of an encoded offset. 48 bits are enough for nine years with a million records per second. */
const OFFSET_BYTES = 6;
