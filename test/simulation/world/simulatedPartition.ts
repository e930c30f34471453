/** One partition of the simulated log with its records and truncations, and a reader's cursor. */
import type { Cursor, ReadBounds } from '@questlog/runtime/log/cursor';
import { type Batch, type LogRecord, LogTruncated, type NewRecord } from '@questlog/runtime/log/log';

interface KeptRecord extends LogRecord {
  /** Number of earlier truncations: Kafka's leader epoch. */
  readonly epoch: number;
}

export class Partition {
  readonly topic: string;
  readonly number: number;
  readonly records: KeptRecord[] = [];
  /** Records that truncations removed. */
  readonly lost: LogRecord[] = [];
  /** Offsets of truncations, first one first. */
  readonly cuts: number[] = [];
  readonly readers = new Set<() => void>();
  /** Offsets below this one belonged to lost records and are or will be reused. */
  reusedBelow = 0;
  endOffset = 0;

  constructor(topic: string, number: number) {
    this.topic = topic;
    this.number = number;
  }

  append(records: readonly NewRecord[], timestampMs: number): number {
    const baseOffset = this.endOffset;
    for (const { key, value, headers = {} } of records) {
      const epoch = this.cuts.length;
      this.records.push({ offset: this.endOffset++, timestampMs, key, value, headers, epoch });
    }
    this.#ring();
    return baseOffset;
  }

  /** Uses one offset for the end of a transaction. */
  mark(): void {
    this.endOffset++;
    this.#ring();
  }

  cut(offset: number): void {
    const first = this.records.findIndex((record) => record.offset >= offset);
    if (first !== -1) this.lost.push(...this.records.splice(first));
    this.reusedBelow = Math.max(this.reusedBelow, this.endOffset);
    this.endOffset = offset;
    this.cuts.push(offset);
    this.#ring();
  }

  #ring(): void {
    for (const ring of this.readers) ring();
  }
}

export class PartitionCursor implements Cursor {
  readonly topic: string;
  readonly partition: Partition;
  readonly #ring: () => void;
  readonly #hasEpochs: boolean;
  #position: number;
  /** Number of truncations that the reader knows, or that happened before its reads. */
  #cutsSeen: number;
  #readTo: number;

  constructor(partition: Partition, position: number, ring: () => void, hasEpochs: boolean) {
    this.topic = partition.topic;
    this.partition = partition;
    this.#ring = ring;
    this.#hasEpochs = hasEpochs;
    this.#position = position;
    this.#readTo = position;
    this.#cutsSeen = partition.cuts.length;
    partition.readers.add(ring);
  }

  get position(): number {
    return this.#position;
  }

  /** Maximum offset of a commit: the end of the log, or the end of the reads if the log was truncated since. */
  get committable(): number {
    return Math.max(this.#readTo, this.partition.endOffset);
  }

  seek(offset: number, leaderEpoch?: number, upToEpoch?: number): void {
    this.#position = offset;
    if (this.#hasEpochs) this.#cutsSeen = leaderEpoch ?? upToEpoch ?? this.partition.cuts.length;
  }

  take({ maxRecords }: ReadBounds): Omit<Batch, 'topic' | 'partition'> | undefined {
    this.#checkCuts();
    const { records: all, endOffset, cuts } = this.partition;
    if (this.#position >= endOffset) return undefined;
    const first = all.findIndex(({ offset }) => offset >= this.#position);
    const records = first === -1 ? [] : all.slice(first, first + maxRecords);
    const isAll = first === -1 || first + records.length === all.length;
    const last = records.at(-1);
    this.#position = isAll || last === undefined ? endOffset : last.offset + 1;
    this.#readTo = Math.max(this.#readTo, this.#position);
    this.#cutsSeen = cuts.length;
    const epoch = this.#hasEpochs && last !== undefined ? { leaderEpoch: last.epoch } : {};
    return { records, nextOffset: this.#position, ...epoch };
  }

  release(): void {
    this.partition.readers.delete(this.#ring);
  }

  #checkCuts(): void {
    const { topic, number: partition, cuts, endOffset } = this.partition;
    const position = this.#position;
    const offset = Math.min(endOffset, ...cuts.slice(this.#cutsSeen));
    this.#cutsSeen = cuts.length;
    if (offset >= position) return;
    this.#position = offset;
    throw new LogTruncated({ topic, partition, offset, position });
  }
}
