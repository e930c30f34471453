/** Inserts the rows of a block exactly once, whatever earlier attempts did. */
import { randomUUID } from 'node:crypto';
import type { Store } from '../clickhouse/store.ts';
import type { Attempt } from './blockWriter.ts';

export interface BlockInsert {
  readonly table: string;
  readonly columns: readonly string[];
  /** Deduplication token, equal for all attempts. It prevents duplicates by a late insert of a previous owner. */
  readonly token: string;
  /** Returns the rows of the wanted offsets in RowBinary. */
  encodeRows(isWanted: (offset: number) => boolean): Buffer;
  /** Returns the block's offsets with stored rows. All rows of a record must be in the same partition of the table. */
  storedOffsets(): Promise<ReadonlySet<number>>;
}

/**
 * Inserts the rows of a block exactly once. Earlier inserts are found by reading the table, not by the token.
 * ClickHouse logs a token before it stores the part, so after a crash it can have a token without rows.
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
  // ClickHouse acknowledges and drops an insert under a token that it has; the next read shows this. All attempts use
  // the same tokens. With a new token per attempt, a late insert of an earlier attempt would be stored, too. ClickHouse
  // never has the last token, which is random. Rows older than the table's TTL are never stored.
  const tokens = [token, `${token} again`, `${token} once more`, `${token} ${randomUUID()}`];
  for (const next of tokens) {
    const stored = await insert.storedOffsets();
    const rows = insert.encodeRows((offset) => !stored.has(offset));
    if (rows.length === 0) return;
    await send(rows, next);
  }
}
