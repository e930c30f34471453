/** Turns a broker's answer to a Fetch, as kafkajs decodes it, into the records that a reader gets. */
import type { Headers, LogRecord } from '../../log.ts';

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
  /** The record batch that it came in. */
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
 * The answer's records from `position` on; undefined if there are none. The chunk ends where the last record batch
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

/** The last value of a repeated header counts. */
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

export interface AbortedTransaction {
  readonly producerId: string;
  /** The offset of its first record in this partition; it ends with the producer's next abort marker. */
  readonly firstOffset: string;
}

interface Message {
  readonly offset: string;
  readonly key: Buffer | null;
  readonly isControlRecord: boolean;
  readonly batchContext: { readonly producerId: string; readonly inTransaction: boolean };
}

/**
 * Leaves out what aborted transactions wrote (KIP-98): brokers send it all the same, with a list of those transactions.
 * kafkajs's own filter takes the list to be sorted and steps into one transaction a record, so that with several at once
 * it lets records through. `messages`: in offset order, whole record batches; markers stay.
 */
export function dropAborted<T extends Message>(
  messages: readonly T[],
  transactions: readonly AbortedTransaction[],
): readonly T[] {
  if (transactions.length === 0) return messages;
  const ahead = transactions
    .map(({ producerId, firstOffset }) => ({ producerId, firstOffset: Number(firstOffset) }))
    .sort((a, b) => b.firstOffset - a.firstOffset);
  const aborting = new Set<string>();
  return messages.filter((message) => {
    const offset = Number(message.offset);
    for (let next = ahead.at(-1); next !== undefined && next.firstOffset <= offset; next = ahead.at(-1)) {
      aborting.add(next.producerId);
      ahead.pop();
    }
    const { producerId, inTransaction } = message.batchContext;
    if (isAbortMarker(message)) aborting.delete(producerId);
    return message.isControlRecord || !inTransaction || !aborting.has(producerId);
  });
}

/** A marker's key is its version and its type, each two bytes; type 0 aborts, type 1 commits. */
function isAbortMarker({ key, isControlRecord }: Message): boolean {
  return isControlRecord && key !== null && key.length >= 4 && key.readInt16BE(2) === 0;
}
