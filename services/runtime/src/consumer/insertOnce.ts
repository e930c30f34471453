/** Has the rows of a block inserted once, whatever became of the attempts before. */
import { randomUUID } from 'node:crypto';
import type { Store } from '../clickhouse/store.ts';
import type { Attempt } from './blockWriter.ts';

export interface BlockInsert {
  readonly table: string;
  readonly columns: readonly string[];
  /** The same for every attempt at the same rows; guards against a late insert of a predecessor. */
  readonly token: string;
  /** The rows of the wanted offsets, RowBinary. */
  encodeRows(isWanted: (offset: number) => boolean): Buffer;
  /** The offsets of the block that the table holds. A record's rows must share a partition of the table. */
  storedOffsets(): Promise<ReadonlySet<number>>;
}

/**
 * Rows of a block into a table exactly once. What was sent before is found by reading, never by trusting a token: after
 * a crash ClickHouse may know a token whose rows are not there (it logs the token before the part is in place).
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
  // An insert under a burnt token is acknowledged and dropped, which the next reading shows. Each attempt goes through the
  // same tokens: with one of its own a late insert would be taken beside it. The last is never burnt. Rows that are beyond
  // the table's TTL are never held.
  const tokens = [token, `${token} again`, `${token} once more`, `${token} ${randomUUID()}`];
  for (const next of tokens) {
    const held = await insert.storedOffsets();
    const rows = insert.encodeRows((offset) => !held.has(offset));
    if (rows.length === 0) return;
    await send(rows, next);
  }
}
