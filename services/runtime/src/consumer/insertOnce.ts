/**
 * Rows of a block into a table exactly once. What was sent before is found by reading, never by trusting a token: after
 * a crash ClickHouse may know a token whose rows are not there (it logs the token before the part is in place).
 */
import { randomUUID } from 'node:crypto';
import type { Store } from '../clickhouse/store.ts';
import type { Attempt } from './blocks.ts';

export interface OnceInsert {
  readonly table: string;
  readonly columns: readonly string[];
  /** The same for every attempt at the same rows; guards against a late insert of a predecessor. */
  readonly token: string;
  /** The rows of the wanted offsets, RowBinary. */
  write(wanted: (offset: number) => boolean): Buffer;
  /** The offsets of the block that the table holds. A record's rows must share a partition of the table. */
  held(): Promise<ReadonlySet<number>>;
}

export async function insertOnce(
  store: Store,
  insert: OnceInsert,
  { verify, confirm }: Attempt,
): Promise<void> {
  const { table, columns, token } = insert;
  const send = async (rows: Buffer, deduplicationToken: string): Promise<void> => {
    if (rows.length === 0) return;
    await confirm();
    await store.insert({ table, columns, rows, deduplicationToken });
  };
  if (!verify)
    return await send(
      insert.write(() => true),
      token,
    );
  // Twice: an insert under a burnt token is acknowledged and dropped, which the second reading shows.
  for (const attempt of [undefined, randomUUID()]) {
    const held = await insert.held();
    const rows = insert.write((offset) => !held.has(offset));
    if (rows.length === 0) return;
    const isWhole = held.size === 0 && attempt === undefined;
    const deduplicationToken = isWhole ? token : `${token}/${attempt ?? randomUUID()}`;
    await send(rows, deduplicationToken);
  }
}
