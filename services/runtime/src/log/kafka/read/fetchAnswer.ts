/** What a broker answers to a Fetch, as kafkajs decodes it, and what of it a reader gets. */
import type { Headers, LogRecord } from '../../log.ts';
import { type AbortedTransaction, dropAborted } from '../abortedRecords.ts';

export interface FetchAnswer {
  readonly responses: readonly {
    readonly topicName: string;
    readonly partitions: readonly PartitionAnswer[];
  }[];
}

export interface PartitionAnswer {
  readonly partition: number;
  /** Everything below can be read: no transaction that may still abort begins before it. */
  readonly lastStableOffset: string;
  readonly abortedTransactions: readonly AbortedTransaction[] | null;
  readonly messages: readonly FetchedMessage[];
}

/** A record, or the marker that ends a transaction. */
export interface FetchedMessage {
  readonly offset: string;
  readonly timestamp: string;
  readonly key: Buffer | null;
  readonly value: Buffer | null;
  readonly headers: Readonly<Record<string, Buffer | readonly Buffer[] | null>>;
  readonly isControlRecord: boolean;
  /** Of the record batch that it came in. */
  readonly batchContext: {
    readonly firstOffset: string;
    readonly lastOffsetDelta: number;
    readonly producerId: string;
    readonly inTransaction: boolean;
  };
}

/** Records that follow one another, and where the next ones begin. */
export interface Chunk {
  readonly records: readonly LogRecord[];
  /** Bytes of key and value, per record. */
  readonly sizes: readonly number[];
  readonly nextOffset: number;
}

/**
 * What the answer holds from `position` on; undefined when that is nothing. The chunk ends where the last record batch
 * ends, not with its last record: that may be a marker, of an aborted transaction, or compacted away.
 */
export function chunkOf(answer: PartitionAnswer, position: number): Chunk | undefined {
  const nextOffset = endOf(answer.messages.at(-1));
  if (nextOffset <= position) return undefined;
  const wanted = dropAborted(answer.messages, answer.abortedTransactions ?? []).filter(
    (message) => !message.isControlRecord && Number(message.offset) >= position,
  );
  return { records: wanted.map(toRecord), sizes: wanted.map(sizeOf), nextOffset };
}

function endOf(message: FetchedMessage | undefined): number {
  if (message === undefined) return 0;
  const { firstOffset, lastOffsetDelta } = message.batchContext;
  return Number(firstOffset) + lastOffsetDelta + 1;
}

function toRecord({ offset, timestamp, key, value, headers }: FetchedMessage): LogRecord {
  return {
    offset: Number(offset),
    timestampMs: Number(timestamp),
    key: key === null ? null : key.toString(),
    value,
    headers: toHeaders(headers),
  };
}

/** Of a repeated header the last value counts. */
function toHeaders(headers: FetchedMessage['headers']): Headers {
  const texts: Record<string, string> = {};
  for (const [name, values] of Object.entries(headers)) {
    const last = isRepeated(values) ? values.at(-1) : values;
    texts[name] = last?.toString() ?? '';
  }
  return texts;
}

function isRepeated(values: Buffer | readonly Buffer[] | null): values is readonly Buffer[] {
  return Array.isArray(values);
}

function sizeOf({ key, value }: FetchedMessage): number {
  return (key?.length ?? 0) + (value?.length ?? 0);
}
