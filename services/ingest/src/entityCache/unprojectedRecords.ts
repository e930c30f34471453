/**
 * The bytes of the latest records of a topic, for as long as ClickHouse may not have them: if the log loses some, whoever
 * read them can append them again. Pure.
 */
import type { LogRecord, NewRecord } from '@questlog/runtime/log/log';

/** Of keys and values. Beyond it the oldest go, and a cut that takes these takes them for good. */
const MAX_BYTES = 16 * 1024 * 1024;
/** How many records come between two questions for what is projected. */
const RECORDS_PER_UPDATE = 256;

interface CopiedRecord extends NewRecord {
  readonly partition: number;
  readonly offset: number;
  readonly bytes: number;
}

export class UnprojectedRecords {
  readonly #maxBytes: number;
  readonly #recordsPerUpdate: number;
  readonly #records = new Set<CopiedRecord>();
  #bytes = 0;
  #recordsSinceUpdate = 0;
  /** As of the last question. */
  #projected: readonly number[] = [];

  constructor({ maxBytes = MAX_BYTES, recordsPerUpdate = RECORDS_PER_UPDATE } = {}) {
    this.#maxBytes = maxBytes;
    this.#recordsPerUpdate = recordsPerUpdate;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** It is time to ask what is projected. */
  get needsProjected(): boolean {
    return this.#recordsSinceUpdate >= this.#recordsPerUpdate;
  }

  put(partition: number, { offset, key, value, headers }: LogRecord): void {
    const bytes = (key?.length ?? 0) + (value?.length ?? 0);
    // A copy: the record's own bytes would keep the whole fetched buffer alive.
    const copied = value === null ? null : Buffer.from(value);
    this.#records.add({ partition, offset, key, headers, value: copied, bytes });
    this.#bytes += bytes;
    this.#recordsSinceUpdate += 1;
    for (const oldest of this.#records) {
      if (this.#bytes <= this.#maxBytes) return;
      this.#remove(oldest);
    }
  }

  /**
   * Forgets what was projected at the question before this one. The latest answer may come from a log that was cut
   * already, and tell of other records at these offsets.
   */
  setProjected(projected: readonly number[]): void {
    for (const record of this.#records) {
      if (record.offset < (this.#projected[record.partition] ?? 0)) this.#remove(record);
    }
    this.#projected = projected;
    this.#recordsSinceUpdate = 0;
  }

  /** Gives up and returns what the log had from the offset on, in its order. */
  truncate(partition: number, offset: number): NewRecord[] {
    this.#projected = [];
    const lost = [...this.#records].filter(
      (record) => record.partition === partition && record.offset >= offset,
    );
    for (const record of lost) this.#remove(record);
    return lost.map(({ key, value, headers }) => ({ key, value, ...(headers && { headers }) }));
  }

  #remove(record: CopiedRecord): void {
    this.#records.delete(record);
    this.#bytes -= record.bytes;
  }
}
