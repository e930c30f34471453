/** Encodes rows in ClickHouse's RowBinary format and inserts them. A retried insert adds no duplicates to query results. */
import { RowBinaryWriter } from '@questlog/runtime/clickhouse/rowBinary';
import type { Columns, RowTable } from '@questlog/runtime/clickhouse/rowTable';
import type { Store } from '@questlog/runtime/clickhouse/store';
import type { Attempt, Block } from '@questlog/runtime/consumer/blockWriter';
import { insertOnce } from '@questlog/runtime/consumer/insertOnce';
import type { DecodedRecord, Source } from './writer.ts';

interface Positioned {
  readonly position: Source & { readonly offset: number };
}

export interface RecordRow<Message> extends Positioned {
  readonly message: Message;
}

export const POSITION_COLUMNS: Columns<Positioned> = {
  log_id: (out, { position }) => out.uuid(position.logId),
  log_partition: (out, { position }) => out.uint32(position.partition),
  log_offset: (out, { position }) => out.uint64(position.offset),
};

interface BlockInsert<Row> {
  readonly source: Source;
  readonly block: Block;
  readonly records: readonly Row[];
  storedOffsets(): Promise<ReadonlySet<number>>;
}

/** Inserts the rows of a block of records exactly once. Skips records that already have rows. */
export async function insertBlock<Row extends DecodedRecord<unknown>>(
  store: Store,
  { table, columns, write, bytesOf = () => ESTIMATED_ROW_BYTES }: RowTable<Row & Positioned>,
  { source, block, records, storedOffsets: held }: BlockInsert<Row>,
  attempt: Attempt,
): Promise<void> {
  // After a truncation, new records reuse the offsets of lost records. With the suffix, the deduplication tokens of the new
  // records differ from the tokens of the lost records.
  const truncationSuffix = source.orphanIds.length === 0 ? '' : `/${source.orphanIds.length}`;
  // The token does not contain the end of the block. If the commit of a block is lost, the next owner of the partition builds a
  // block with the same start and possibly another end. ClickHouse then drops a late insert of the previous owner.
  const token = `${source.logId}/${block.topic}/${source.partition}/${block.start}${truncationSuffix}`;
  const rowsOf = (wanted: (offset: number) => boolean): Buffer => {
    const rows = records
      .filter(({ offset }) => wanted(offset))
      .map((record) => ({ ...record, position: { ...source, offset: record.offset } }));
    const out = new RowBinaryWriter(rows.reduce((sum, row) => sum + bytesOf(row), 0));
    for (const row of rows) write(out, row);
    return out.written();
  };
  await insertOnce(store, { table, columns, token, encodeRows: rowsOf, storedOffsets: held }, attempt);
}

const ESTIMATED_ROW_BYTES = 256;

const MAX_INSERT_BYTES = 8 * 1024 * 1024;

/** Inserts rows into tables that merge rows with the same key and version. A repeated insert changes nothing. */
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
    await this.#store.insert({ table, columns, rows: this.#out.written() });
    this.#out = new RowBinaryWriter();
  }
}

export async function writeRows<Row>(store: Store, table: RowTable<Row>, rows: Iterable<Row>): Promise<void> {
  const sink = new RowSink(store, table);
  await sink.add(rows);
  await sink.flush();
}
