/**
 * Ids of the stream of linked events. An id is an encrypted position: a log id and the next offset of each partition.
 * Pure.
 */
import { type CursorCipher, FORMAT_VERSION, OVERHEAD_BYTES } from '../../core/cursorCipher.ts';

export interface StreamPosition {
  readonly logId: string;
  readonly nextOffsets: readonly number[];
}

/** Range of offsets that the log currently has, by partition. */
export interface TopicBounds {
  readonly logId: string;
  readonly startOffsets: readonly number[];
  readonly endOffsets: readonly number[];
}

/**
 * Encodes a position as the 16 bytes of the log id and fixed-length offsets. The encoding is binary because every
 * message has an id.
 */
export function positionBytes({ logId, nextOffsets }: StreamPosition): Buffer {
  const bytes = Buffer.alloc(LOG_ID_BYTES + nextOffsets.length * OFFSET_BYTES);
  bytes.write(logId.replaceAll('-', ''), 'hex');
  for (const [partition, offset] of nextOffsets.entries()) {
    bytes.writeUIntBE(offset, LOG_ID_BYTES + partition * OFFSET_BYTES, OFFSET_BYTES);
  }
  return bytes;
}

/** True if the text has the form of an id. Does not check its content. */
export function isStreamId(text: string): boolean {
  const bytes = Buffer.from(text, 'base64url');
  // Rejects truncated or changed ids, because base64url decoding ignores invalid characters.
  if (bytes.toString('base64url') !== text) return false;
  if (bytes[0] === UNENCRYPTED) return bytes.length > LOG_ID_BYTES + 1;
  const offsetBytes = bytes.length - OVERHEAD_BYTES - LOG_ID_BYTES;
  return bytes[0] === FORMAT_VERSION && offsetBytes > 0 && offsetBytes % OFFSET_BYTES === 0;
}

/**
 * Returns the position of an id. Returns 'start' if the id was encrypted with another key (after a reset of the log) or
 * is an unencrypted id of an earlier version. A client could invent an unencrypted id with any offset and learn the
 * length of the log. A client ignores repeated links by their version, but would miss skipped links forever.
 */
export function positionIn(id: string, seal: CursorCipher): StreamPosition | 'start' {
  const bytes = seal.decrypt(id);
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
 * Returns the offsets to read from. Starts at the oldest link if the position belongs to another log, or if an offset
 * is after the end of the log (after a restore from a backup). A client ignores repeated links by their version, but
 * would miss skipped links forever. Returns undefined if the position has another number of partitions.
 */
export function offsetsFrom(
  from: StreamPosition | 'start' | 'end',
  topic: TopicBounds,
): number[] | undefined {
  if (from === 'end') return [...topic.endOffsets];
  if (from === 'start' || from.logId !== topic.logId) return [...topic.startOffsets];
  if (from.nextOffsets.length !== topic.startOffsets.length) return undefined;
  return topic.startOffsets.map((start, partition) => {
    const wanted = from.nextOffsets[partition] ?? 0;
    return wanted > (topic.endOffsets[partition] ?? 0) ? start : Math.max(wanted, start);
  });
}

/**
 * Returns the partitions in which records after the position have expired. If the position belongs to another log,
 * returns every partition with expired records.
 */
export function expiredPartitions(from: StreamPosition | 'start', topic: TopicBounds): number[] {
  const isKnown = from !== 'start' && from.logId === topic.logId;
  return topic.startOffsets.flatMap((start, partition) => {
    const wanted = isKnown ? (from.nextOffsets[partition] ?? 0) : 0;
    return wanted < start ? [partition] : [];
  });
}

/** First byte of an id of an earlier version. */
const UNENCRYPTED = 1;
const LOG_ID_BYTES = 16;
/** With a million records per second, 48 bits of offsets last for nine years. */
const OFFSET_BYTES = 6;
