/** What an id of the stream of linked events holds, sealed: a log's id and, per partition, the next offset wanted. Pure. */
import { type CursorCipher, FORMAT_VERSION, OVERHEAD_BYTES } from '../../core/cursorCipher.ts';

export interface StreamPosition {
  readonly logId: string;
  readonly nextOffsets: readonly number[];
}

/** What the log holds of the topic now, per partition. */
export interface TopicBounds {
  readonly logId: string;
  readonly startOffsets: readonly number[];
  readonly endOffsets: readonly number[];
}

/** Binary, since every message carries one: the log's 16 bytes, and the offsets, each as long as any. */
export function positionBytes({ logId, nextOffsets }: StreamPosition): Buffer {
  const bytes = Buffer.alloc(LOG_ID_BYTES + nextOffsets.length * OFFSET_BYTES);
  bytes.write(logId.replaceAll('-', ''), 'hex');
  for (const [partition, offset] of nextOffsets.entries()) {
    bytes.writeUIntBE(offset, LOG_ID_BYTES + partition * OFFSET_BYTES, OFFSET_BYTES);
  }
  return bytes;
}

/** Whether a text has the form of an id, whatever it says. */
export function isStreamId(text: string): boolean {
  const bytes = Buffer.from(text, 'base64url');
  // Decoding base64url ignores what does not belong there; an id that was cut or mangled is none.
  if (bytes.toString('base64url') !== text) return false;
  if (bytes[0] === UNENCRYPTED) return bytes.length > LOG_ID_BYTES + 1;
  const offsetBytes = bytes.length - OVERHEAD_BYTES - LOG_ID_BYTES;
  return bytes[0] === FORMAT_VERSION && offsetBytes > 0 && offsetBytes % OFFSET_BYTES === 0;
}

/**
 * The place that an id holds. The start, if it was closed with another secret (the log was made anew) or in an earlier
 * version, which did not seal: a client could write such an id itself, with any offset, and would learn from what comes
 * how long the log is. What is sent again is dropped by its version, what is left out is missed for ever.
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
 * The offsets to read from. Another log's position means nothing here, hence its start; so does an offset beyond the end
 * (the log was restored from a copy): what is sent again is dropped by its version, what is left out is missed for ever.
 * Undefined: no id of this log has so many partitions.
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
 * Returns the partitions in which records after the position have expired. A position of another log does not show what
 * its client has read. The result is then every partition in which a record has expired.
 */
export function expiredPartitions(from: StreamPosition | 'start', topic: TopicBounds): number[] {
  const isKnown = from !== 'start' && from.logId === topic.logId;
  return topic.startOffsets.flatMap((start, partition) => {
    const wanted = isKnown ? (from.nextOffsets[partition] ?? 0) : 0;
    return wanted < start ? [partition] : [];
  });
}

/** The first byte of an id of an earlier version. */
const UNENCRYPTED = 1;
const LOG_ID_BYTES = 16;
/** A million records a second fill a partition's offsets of 48 bits in nine years. */
const OFFSET_BYTES = 6;
