/** Reads of the ledger of appends: what a partition has already stored. */

import type { Store } from '@questlog/runtime/clickhouse/store';
import { MAX_RECENT_APPENDS } from '@questlog/runtime/consumer/recentAppends';
import type { Source } from './rows.ts';

/** Ids in one `IN` list. */
const MAX_IDS = 2_500;

/** The append ids below an offset, oldest first: *below*, since a replayed block must not drop itself. */
export async function recentAppendIds(store: Store, source: Source, start: number): Promise<string[]> {
  const rows = await store.query<{ append_id: string }>(
    `SELECT append_id FROM appends
     WHERE log_id = {logId:UUID} AND log_partition = {partition:UInt32} AND log_offset < {start:UInt64}
     ORDER BY log_offset DESC LIMIT {limit:UInt32}`,
    { ...source, start, limit: MAX_RECENT_APPENDS },
  );
  return rows.map((row) => row.append_id).reverse();
}

/** Which of the ids the ledger holds below the offset. */
export async function repeatedBelow(
  store: Store,
  source: Source,
  start: number,
  ids: readonly string[],
): Promise<Set<string>> {
  const found = new Set<string>();
  for (let i = 0; i < ids.length; i += MAX_IDS) {
    const rows = await store.query<{ append_id: string }>(
      `SELECT append_id FROM appends
       WHERE log_id = {logId:UUID} AND log_partition = {partition:UInt32} AND log_offset < {start:UInt64}
         AND append_id IN {ids:Array(UUID)}`,
      { ...source, start, ids: ids.slice(i, i + MAX_IDS) },
    );
    for (const row of rows) found.add(row.append_id);
  }
  return found;
}
