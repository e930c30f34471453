/**
 * Encodes and decodes the ids of the linked-event stream. An id is an encrypted position: a log id and the next offset of each
 * partition. Pure.
 */
import { type CursorCipher, FORMAT_VERSION, OVERHEAD_BYTES } from '../../core/cursorCipher.ts';

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
 * Encodes a position. The length depends only on the number of partitions. The encoding is binary, because every message
 * contains an id and ids must be short.
 */
export function positionBytes({ logId, nextOffsets }: StreamPosition): Buffer {
  const bytes = Buffer.alloc(LOG_ID_BYTES + nextOffsets.length * OFFSET_BYTES);
  bytes.write(logId.replaceAll('-', ''), 'hex');
  for (const [partition, offset] of nextOffsets.entries()) {
    bytes.writeUIntBE(offset, LOG_ID_BYTES + partition * OFFSET_BYTES, OFFSET_BYTES);
  }
  return bytes;
}

/** True if the text has the form of an id. Does not decrypt the id. */
export function isStreamId(text: string): boolean {
  const bytes = Buffer.from(text, 'base64url');
  // Rejects texts with other characters, because the decoding of base64url ignores them.
  if (bytes.toString('base64url') !== text) return false;
  if (bytes[0] === UNENCRYPTED) return bytes.length > LOG_ID_BYTES + 1;
  const offsetBytes = bytes.length - OVERHEAD_BYTES - LOG_ID_BYTES;
  return bytes[0] === FORMAT_VERSION && offsetBytes > 0 && offsetBytes % OFFSET_BYTES === 0;
}

/**
 * Returns the position of an id. Returns 'start' if the id was encrypted with another key. The key changes when the log is
 * reset. An unencrypted id of an earlier version gives 'start' too, because such ids let clients find out the length of
 * the log. A stream from 'start' repeats links, which clients drop by version. A later position could skip links.
 */
export function positionIn(id: string, cipher: CursorCipher): StreamPosition | 'start' {
  const bytes = cipher.decrypt(id);
  if (bytes === undefined) return 'start';
  const logId = bytes
    .toString('hex', 0, LOG_ID_BYTES)
    .replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5');
  const count = (bytes.length - LOG_ID_BYTES) / OFFSET_BYTES;
  const nextOffsets = Array.from({ length: count }, (_, partition) =>
    bytes.readUIntBE(LOG_ID_BYTES + partition * OFFSET_BYTES, OFFSET_BYTES),
  );
  return { logId, nextOffsets };
}

/**
 * Returns the offsets from which the stream reads. Starts at the oldest link if the position belongs to another log, or is
 * after the end of a restored log. Clients drop repeated links, but would miss skipped links. Returns undefined if the number
 * of partitions differs.
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

/**
 * Returns the partitions in which records after the position have expired. If the position belongs to another log, returns all
 * partitions in which records have expired.
 */
export function expiredPartitions(from: StreamPosition | 'start', topic: TopicBounds): number[] {
  const isKnown = from !== 'start' && from.logId === topic.logId;
  return topic.startOffsets.flatMap((start, partition) => {
    const nextOffset = isKnown ? (from.nextOffsets[partition] ?? 0) : 0;
    return nextOffset < start ? [partition] : [];
  });
}

/** First byte of an unencrypted id of an earlier version. */
const UNENCRYPTED = 1;
const LOG_ID_BYTES = 16;
/** Number of bytes per offset. At a million records per second, 48 bits last for nine years. */
const OFFSET_BYTES = 6;
