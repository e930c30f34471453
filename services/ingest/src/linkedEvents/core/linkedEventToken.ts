/** The resume token of the stream of linked events: a log's id and, per partition, the next offset wanted. Pure. */
import { canonicalUuid } from '@questlog/schemas/uuid';

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

/** Binary, since every message carries one: the version, the log's 16 bytes, the offsets as LEB128. */
export function formatToken({ logId, nextOffsets }: StreamPosition): string {
  const bytes = [VERSION, ...Buffer.from(logId.replaceAll('-', ''), 'hex')];
  for (const offset of nextOffsets) pushVarint(bytes, offset);
  return Buffer.from(bytes).toString('base64url');
}

/** Undefined for a text that `formatToken` did not make. */
export function parseToken(text: string): StreamPosition | undefined {
  const bytes = Buffer.from(text, 'base64url');
  if (bytes.length < HEAD_BYTES || bytes[0] !== VERSION) return undefined;
  const hex = bytes.toString('hex', 1, HEAD_BYTES);
  const logId = canonicalUuid(hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5'));
  const nextOffsets = varintsOf(bytes.subarray(HEAD_BYTES));
  if (logId === undefined || nextOffsets === undefined) return undefined;
  const position = { logId, nextOffsets };
  // Decoding base64url ignores what does not belong there; a token that was cut or mangled is none.
  return formatToken(position) === text ? position : undefined;
}

/**
 * The offsets to read from. Another log's position means nothing here, hence its start; so does an offset beyond the end
 * (the log was restored from a copy): what is sent again is dropped by its version, what is left out is missed for ever.
 * Undefined: no token of this log has so many partitions.
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

const VERSION = 1;
const HEAD_BYTES = 17;
/** Of a varint that a double still holds exactly. */
const MAX_VARINT_BYTES = 8;
const CONTINUES = 0x80;

/** Offsets reach beyond 32 bits, hence no shifts. */
function pushVarint(bytes: number[], value: number): void {
  let rest = value;
  while (rest >= CONTINUES) {
    bytes.push((rest % CONTINUES) + CONTINUES);
    rest = Math.floor(rest / CONTINUES);
  }
  bytes.push(rest);
}

function varintsOf(bytes: Buffer): number[] | undefined {
  const values: number[] = [];
  let value = 0;
  let length = 0;
  for (const byte of bytes) {
    value += (byte % CONTINUES) * CONTINUES ** length;
    length++;
    if (length > MAX_VARINT_BYTES || !Number.isSafeInteger(value)) return undefined;
    if (byte >= CONTINUES) continue;
    values.push(value);
    value = 0;
    length = 0;
  }
  return length === 0 ? values : undefined;
}
