/** Inserts the rows of a block exactly once, even if earlier attempts inserted some of the rows. */
import { randomUUID } from 'node:crypto';
import type { Store } from '../clickhouse/store.ts';
import type { Attempt } from './blockWriter.ts';

export interface BlockInsert {
  readonly table: string;
  readonly columns: readonly string[];
  /** Deduplication token of the first attempt to insert the block. All owners of the partition use the same token. */
  readonly token: string;
  /** Returns the rows of the records for which `isWanted` returns true, in RowBinary. */
  encodeRows(isWanted: (offset: number) => boolean): Buffer;
  /**
   * Returns the offset of every record that already has rows in ClickHouse. Inserts are atomic only within a table partition,
   * so a record's rows must share one partition.
   */
  storedOffsets(): Promise<ReadonlySet<number>>;
}

/**
 * Inserts the rows of a block exactly once. Reads which rows are already stored. A deduplication token alone is not enough,
 * because after a crash, ClickHouse can have the token of an insert without its rows.
 */
export async function insertOnce(
  store: Store,
  insert: BlockInsert,
  { verify, confirm }: Attempt,
): Promise<void> {
  const { table, columns, token } = insert;
  const send = async (rows: Buffer, deduplicationToken: string): Promise<void> => {
    if (rows.length === 0) return;
    await confirm();
    await store.insert({ table, columns, rows, deduplicationToken });
  };
  if (!verify) {
    const rows = insert.encodeRows(() => true);
    return await send(rows, token);
  }
  // Each attempt needs a new token, because ClickHouse drops an insert whose token was already used. The first three tokens are
  // the same in all processes. If this process has used one of these tokens, ClickHouse drops a late insert of a previous owner
  // with the same token.
  const tokens = [token, `${token} again`, `${token} once more`, `${token} ${randomUUID()}`];
  for (const next of tokens) {
    const stored = await insert.storedOffsets();
    const rows = insert.encodeRows((offset) => !stored.has(offset));
    if (rows.length === 0) return;
    await send(rows, next);
  }
  // Rows that are still missing are older than the TTL of the table. This is not an error, because ClickHouse never stores such
  // rows.
}
