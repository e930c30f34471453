/** Repairs the tables in ClickHouse after the log has lost records. */
import { createHash } from 'node:crypto';
import type { Store } from '@questlog/runtime/clickhouse/store';
import { lostRecordsOf, OF_PARTITION } from '@questlog/runtime/clickhouse/storedEvents';
import type { StoredRows, Truncation } from '@questlog/runtime/log/truncation/findTruncation';
import type { Clock } from '@questlog/runtime/process/clock';
import { type Codec, decodeIfValid } from '@questlog/runtime/registry/registry';
import { uuidV8 } from '@questlog/schemas/uuid';
import { repair } from './repair.ts';
import { type Rows, SEARCH_RANGE_RECORDS, type TopicTables } from './topicTables.ts';
import {
  insertTruncation,
  markRepaired,
  type TopicSource,
  type TruncationQuery,
  type TruncationRow,
} from './truncations.ts';

export interface StoredRecordsDeps<Message> {
  readonly store: Store;
  readonly codec: Codec<Message>;
  readonly clock: Clock;
  readonly source: TopicSource;
  readonly tables: TopicTables<Message>;
  readonly truncationsOf: TruncationQuery;
  /** Truncations of the partition, the oldest first. `unfinishedRepair` updates this list. */
  readonly truncations: TruncationRow[];
}

/**
 * Returns functions that search for the rows of a partition's records.
 *
 * If all rows of `appends` have expired, `highestRow` searches above the last offset in `quota_usage_by_partition`. Rows above
 * this offset exist only if the write of a block was interrupted.
 */
export function openStoredRecords<Message>(deps: StoredRecordsDeps<Message>): StoredRows {
  const { store, codec, clock, source, tables, truncationsOf } = deps;
  const find = async ({ table, name, where }: Rows, { above, below, about }: Between) => {
    const rows = await store.query<{ offset: string; name: string }>(
      `SELECT log_offset AS offset, ${name} AS name FROM ${table}
       WHERE ${OF_PARTITION} AND ${where}
         AND log_offset > {above:Int64} AND log_offset < {below:Int64}
       ORDER BY ${about === below ? 'log_offset DESC' : 'abs(toInt64(log_offset) - {about:Int64}), log_offset'}, name LIMIT 1`,
      { ...source, above, below, about },
    );
    return rows
      .map(({ offset, name: text }) => ({ offset: Number(offset), name: text }))
      .sort((a, b) => Math.abs(a.offset - about) - Math.abs(b.offset - about))[0];
  };
  const lastCountedOffset = async (): Promise<number> => {
    const [row] = await store.query<{ last: string | null }>(
      `SELECT maxOrNull(last_offset) AS last FROM quota_usage_by_partition
       WHERE ${OF_PARTITION}`,
      { ...source },
    );
    return Number(row?.last ?? -1);
  };
  return {
    hasRowsFrom: async (offset) => {
      for (const { table, where } of tables.verified) {
        const rows = await store.query(
          `SELECT 1 FROM ${table} WHERE ${OF_PARTITION} AND ${where}
           LIMIT 1`,
          { ...source, offset },
        );
        if (rows.length > 0) return true;
      }
      return false;
    },
    highestRow: async (above) => {
      const newest = await find(tables.newest ?? tables.rows, { above, below: NO_LIMIT, about: NO_LIMIT });
      if (tables.newest === undefined) return newest;
      // A crash between two inserts can leave rows in `events` without a row in `appends`.
      const from = newest?.offset ?? Math.max(above, await lastCountedOffset());
      const below = from + SEARCH_RANGE_RECORDS;
      return (await find(tables.rows, { above: from, below, about: below })) ?? newest;
    },
    nearestRow: (between) => find(tables.rows, between),
    rowNamesOf: async (record) => {
      const message = await decodeIfValid(codec, record);
      return message === undefined ? [] : tables.namesOf(message);
    },
    unfinishedRepair: async () => {
      const rows = await truncationsOf(source);
      deps.truncations.splice(0, Infinity, ...rows);
      const row = rows.find(({ repaired }) => repaired === 0);
      return row && { offset: Number(row.offset), end: Number(row.endOffset), lost: row.lost };
    },
    repair: async (cut, confirm) => {
      const orphanId = orphanIdOf(source, cut);
      const noted = await truncationsOf(source);
      if (!noted.some((one) => one.orphanId === orphanId)) {
        const lostRecords = await lostRecordsOf(store, source, tables, cut.offset);
        await confirm();
        await insertTruncation(store, { ...cut, source, orphanId, lostRecords, foundAtMs: clock.now() });
      }
      await repair(store, tables, { source, orphanId, offset: cut.offset }, confirm);
      const row = (await truncationsOf(source)).find((one) => one.orphanId === orphanId);
      return Number(row?.records ?? 0);
    },
    markRepaired: (cut) => markRepaired(store, orphanIdOf(source, cut)),
  };
}

interface Between {
  readonly above: number;
  readonly below: number;
  readonly about: number;
}

const NO_LIMIT = Number.MAX_SAFE_INTEGER;

/** Returns the new log id for rows of lost records. The id is a hash, so that each attempt of a repair uses the same id. */
function orphanIdOf({ logId, topic, partition }: TopicSource, { offset, end, lost }: Truncation): string {
  const name = JSON.stringify([logId, topic, partition, offset, end, lost]);
  return uuidV8(createHash('sha256').update(name).digest());
}
