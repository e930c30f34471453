/** Inserts the rows of a block exactly once, even if earlier attempts inserted some of the rows. */
import { randomUUID } from 'node:crypto';
import type { Store } from '../clickhouse/store.ts';
import type { Attempt } from './blockWriter.ts';

export interface BlockInsert {
  readonly table: string;
  readonly columns: readonly string[];
  /** Deduplication token. All attempts use the same token, so a late insert of a previous owner creates no duplicates. */
  readonly token: string;
  /** Returns the rows of the offsets for which `isWanted` returns true, encoded as RowBinary. */
  encodeRows(isWanted: (offset: number) => boolean): Buffer;
  /** Returns the offsets of the block that have stored rows. All rows of a record must be in the same ClickHouse partition. */
  storedOffsets(): Promise<ReadonlySet<number>>;
}

/**
 * Inserts the rows of a block exactly once. Finds the rows of earlier inserts by reading the table. The token alone is not
 * enough: ClickHouse logs a token before it stores the part. After a crash, ClickHouse can therefore have a token without
 * rows.
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
  // ClickHouse acknowledges and drops an insert whose token it already has. The next read of the table shows that the rows are
  // missing. All attempts use the same tokens, because a late insert of an earlier attempt would be stored under a different
  // token. The last token is random, so ClickHouse cannot have it. Rows older than the table's TTL are never stored.
  const tokens = [token, `${token} again`, `${token} once more`, `${token} ${randomUUID()}`];
  for (const next of tokens) {
    const stored = await insert.storedOffsets();
    const rows = insert.encodeRows((offset) => !stored.has(offset));
    if (rows.length === 0) return;
    await send(rows, next);
  }
}
