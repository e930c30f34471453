/** Keeps copies of a topic's latest records until ClickHouse has them, so that lost records can be appended again. */
import type { LogRecord, NewRecord } from '@questlog/runtime/log/log';
import { BoundedMap } from '@questlog/runtime/process/boundedMap';

const MAX_BYTES = 16 * 1024 * 1024;
const RECORDS_PER_UPDATE = 256;

interface CopiedRecord extends NewRecord {
  readonly partition: number;
  readonly offset: number;
  readonly bytes: number;
}

export class UnprojectedRecords {
  readonly #recordsPerUpdate: number;
  readonly #records: BoundedMap<CopiedRecord, CopiedRecord>;
  #recordsSinceUpdate = 0;
  #projected: readonly number[] = [];

  constructor({ maxBytes = MAX_BYTES, recordsPerUpdate = RECORDS_PER_UPDATE } = {}) {
    this.#records = new BoundedMap(maxBytes, (record) => record.bytes);
    this.#recordsPerUpdate = recordsPerUpdate;
  }

  get bytes(): number {
    return this.#records.weight;
  }

  get needsProjected(): boolean {
    return this.#recordsSinceUpdate >= this.#recordsPerUpdate;
  }

  put(partition: number, { offset, key, value, headers }: LogRecord): void {
    const bytes = (key?.length ?? 0) + (value?.length ?? 0);
    // Copies the value, because a slice of the fetch response would keep the whole response in memory.
    const copied = value === null ? null : Buffer.from(value);
    const record = { partition, offset, key, headers, value: copied, bytes };
    this.#records.set(record, record);
    this.#recordsSinceUpdate += 1;
  }

  /**
   * Removes copies of the records below the offsets of the previous call, and stores the given offsets for the next call. After
   * a truncation, ClickHouse can have a new record with the offset of a lost record. Because of the delay by one call, this
   * process detects the truncation before it removes the copy of the lost record.
   * @param projected for each partition, the offset below which ClickHouse has all records
   */
  setProjected(projected: readonly number[]): void {
    for (const record of this.#records.values()) {
      if (record.offset < (this.#projected[record.partition] ?? 0)) this.#records.delete(record);
    }
    this.#projected = projected;
    this.#recordsSinceUpdate = 0;
  }

  truncate(partition: number, offset: number): NewRecord[] {
    this.#projected = [];
    const lost = [...this.#records.values()].filter(
      (record) => record.partition === partition && record.offset >= offset,
    );
    for (const record of lost) this.#records.delete(record);
    return lost.map(({ key, value, headers }) => ({ key, value, ...(headers && { headers }) }));
  }
}
