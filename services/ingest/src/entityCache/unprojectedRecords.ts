/** Keeps a topic's latest records until ClickHouse has them, so that lost records can be appended again. */
import type { LogRecord, NewRecord } from '@questlog/runtime/log/log';

const MAX_BYTES = 16 * 1024 * 1024;
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
  #projected: readonly number[] = [];

  constructor({ maxBytes = MAX_BYTES, recordsPerUpdate = RECORDS_PER_UPDATE } = {}) {
    this.#maxBytes = maxBytes;
    this.#recordsPerUpdate = recordsPerUpdate;
  }

  get bytes(): number {
    return this.#bytes;
  }

  get needsProjected(): boolean {
    return this.#recordsSinceUpdate >= this.#recordsPerUpdate;
  }

  put(partition: number, { offset, key, value, headers }: LogRecord): void {
    const bytes = (key?.length ?? 0) + (value?.length ?? 0);
    // Copies the record's value, because a view would keep the whole buffer of the fetch response in memory.
    const copied = value === null ? null : Buffer.from(value);
    this.#records.add({ partition, offset, key, headers, value: copied, bytes });
    this.#bytes += bytes;
    this.#recordsSinceUpdate += 1;
    for (const oldest of this.#records) {
      if (this.#bytes <= this.#maxBytes) return;
      this.#remove(oldest);
    }
  }

  /** Removes the records below the offsets of the previous call. New offsets can count records that replaced lost records. */
  setProjected(projected: readonly number[]): void {
    for (const record of this.#records) {
      if (record.offset < (this.#projected[record.partition] ?? 0)) this.#remove(record);
    }
    this.#projected = projected;
    this.#recordsSinceUpdate = 0;
  }

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
