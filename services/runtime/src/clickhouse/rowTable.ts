/** Encodes the rows of a table in ClickHouse's RowBinary format. */
import { Invalid } from '../process/errors.ts';
import { RowBinaryWriter } from './rowBinary.ts';
import type { Insert } from './store.ts';

export interface RowTable<Row> {
  readonly table: string;
  readonly columns: readonly string[];
  write(out: RowBinaryWriter, row: Row): void;
  bytesOf?(row: Row): number;
}

export type Columns<Row> = Readonly<Record<string, (out: RowBinaryWriter, row: Row) => void>>;

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
        // A producer that is not part of Questlog can write a number outside the column's range. The record is then invalid.
        if (Object(error).code !== 'ERR_OUT_OF_RANGE') throw error;
        throw new Invalid(`${table}.${column} cannot hold it`, { cause: error });
      }
    },
  };
}

export function insertOf<Row>({ table, columns, write }: RowTable<Row>, rows: Iterable<Row>): Insert {
  const out = new RowBinaryWriter();
  for (const row of rows) write(out, row);
  return { table, columns, rows: out.written() };
}
