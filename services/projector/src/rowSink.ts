/** The rows of a table as RowBinary, and their two ways in: once, or again and again. */
import { RowBinaryWriter } from '@questlog/runtime/clickhouse/rowBinary';
import type { Store } from '@questlog/runtime/clickhouse/store';
import type { Attempt, Block } from '@questlog/runtime/consumer/blockWriter';
import { insertOnce } from '@questlog/runtime/consumer/insertOnce';
import { Invalid } from '@questlog/runtime/process/errors';
import type { DecodedRecord, Source } from './writer.ts';

export interface RowTable<Row> {
  readonly table: string;
  readonly columns: readonly string[];
  write(out: RowBinaryWriter, row: Row): void;
  /** A row's size, about: a buffer that has to grow is copied, and for a while there twice. */
  bytesOf?(row: Row): number;
}

/** Each column's name, and how its value is written. */
type Columns<Row> = Readonly<Record<string, (out: RowBinaryWriter, row: Row) => void>>;

export function rowTable<Row>(table: string, columns: Columns<Row>): RowTable<Row> {
  const writers = Object.entries(columns);
  return {
    table,
    columns: Object.keys(columns),
    write: (out, row) => {
      let column = '';
      try {
        for (const [name, write] of writers) {
          column = name;
          write(out, row);
        }
      } catch (error) {
        // A foreign record's number: the record is bad, not the process.
        if (Object(error).code !== 'ERR_OUT_OF_RANGE') throw error;
        throw new Invalid(`${table}.${column} cannot hold it`, { cause: error });
      }
    },
  };
}

/** Of one record of the log. */
interface Positioned {
  readonly position: Source & { readonly offset: number };
}

/** A row of one record of the log. */
export interface RecordRow<Message> extends Positioned {
  readonly message: Message;
}

/** The columns of a record's place in the log. */
export const POSITION_COLUMNS: Columns<Positioned> = {
  log_id: (out, { position }) => out.uuid(position.logId),
  log_partition: (out, { position }) => out.uint32(position.partition),
  log_offset: (out, { position }) => out.uint64(position.offset),
};

interface BlockInsert<Row> {
  readonly source: Source;
  readonly block: Block;
  readonly records: readonly Row[];
  /** The offsets of the block that the table holds. */
  storedOffsets(): Promise<ReadonlySet<number>>;
}

/** Writes the rows of a block's records, one or many each, and none that are there already. */
export async function insertBlock<Row extends DecodedRecord<unknown>>(
  store: Store,
  { table, columns, write, bytesOf = () => ESTIMATED_ROW_BYTES }: RowTable<Row & Positioned>,
  { source, block, records, storedOffsets: held }: BlockInsert<Row>,
  attempt: Attempt,
): Promise<void> {
  // After a cut of the log the same offsets are other records.
  const truncationSuffix = source.orphanIds.length === 0 ? '' : `/${source.orphanIds.length}`;
  const token = `${source.logId}/${block.topic}/${source.partition}/${block.start}-${block.end}${truncationSuffix}`;
  const rowsOf = (wanted: (offset: number) => boolean): Buffer => {
    const rows = records
      .filter(({ offset }) => wanted(offset))
      .map((record) => ({ ...record, position: { ...source, offset: record.offset } }));
    const out = new RowBinaryWriter(rows.reduce((sum, row) => sum + bytesOf(row), 0));
    for (const row of rows) write(out, row);
    return out.bytes();
  };
  await insertOnce(store, { table, columns, token, encodeRows: rowsOf, storedOffsets: held }, attempt);
}

/** A row of ids and numbers, with room for a short text. */
const ESTIMATED_ROW_BYTES = 256;

/** One insert holds so much and a row: a small retraction repeats a long report, a block could grow a hundredfold. */
const MAX_INSERT_BYTES = 8 * 1024 * 1024;

/**
 * Writes rows that may be written again: same key, same version, same content, so that the table merges a repeat away
 * and its views never show it. Hence no de-duplication token and no look at what is in place, and rows may be cut into
 * inserts anywhere.
 */
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

/** All of them, as a `RowSink` does. */
export async function writeRows<Row>(store: Store, table: RowTable<Row>, rows: Iterable<Row>): Promise<void> {
  const sink = new RowSink(store, table);
  await sink.add(rows);
  await sink.flush();
}
