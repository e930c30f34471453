/**
 * Writes rows that may be written again: same key, same version, same content, so that the table merges a repeat away
 * and its views never show it. Hence no de-duplication token and no look at what is in place, and rows may be cut into
 * inserts anywhere.
 */
import { RowBinaryWriter } from '@questlog/runtime/clickhouse/rowBinary';
import type { Store } from '@questlog/runtime/clickhouse/store';

export interface RowTable<Row> {
  readonly table: string;
  readonly columns: readonly string[];
  write(out: RowBinaryWriter, row: Row): void;
}

/** One insert holds so much and a row: a small retraction repeats a long report, a block could grow a hundredfold. */
const MAX_INSERT_BYTES = 8 * 1024 * 1024;

export class RowSink<Row> {
  readonly #store: Store;
  readonly #table: RowTable<Row>;
  #out = new RowBinaryWriter();

  constructor(store: Store, table: RowTable<Row>) {
    this.#store = store;
    this.#table = table;
  }

  async add(rows: Iterable<Row>): Promise<void> {
    for (const row of rows) {
      this.#table.write(this.#out, row);
      if (this.#out.length >= MAX_INSERT_BYTES) await this.flush();
    }
  }

  async flush(): Promise<void> {
    if (this.#out.length === 0) return;
    const { table, columns } = this.#table;
    await this.#store.insert({ table, columns, rows: this.#out.bytes() });
    this.#out = new RowBinaryWriter();
  }
}
