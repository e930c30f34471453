/** Looks up the UUIDs of ClickHouse tables. A table that was restored from a backup has another UUID than before. */
import { steadyClock } from '../../process/clock.ts';
import { Unavailable } from '../../process/errors.ts';
import { coalesceCalls } from '../../process/waiting.ts';
import type { Store } from '../store.ts';

const TABLES = 'SELECT name, uuid FROM system.tables WHERE database = currentDatabase()';

interface NamedTable {
  readonly name: string;
  readonly uuid: string;
}

/**
 * Returns a function that looks up the UUID of a table. Concurrent lookups share a query. A restored table has another UUID. An
 * ALTER does not change the UUID.
 */
export function coalescedTableUuids(
  store: Pick<Store, 'query' | 'localName'>,
): (table: string) => Promise<string> {
  const lookup = coalesceCalls(() => store.query<NamedTable>(TABLES));
  return async (table) => uuidOf(store.localName?.(table) ?? table, await lookup());
}

const UUID_CACHE_MS = 1_000;

/** Returns a function that looks up the UUID of a table and caches it for `cacheMs`. A restored table has another UUID. */
export function cachedTableUuids(
  store: Pick<Store, 'query' | 'localName'>,
  cacheMs = UUID_CACHE_MS,
): (table: string) => Promise<string> {
  let cached: { readonly atMs: number; readonly tables: Promise<NamedTable[]> } | undefined;
  return async (table) => {
    const nowMs = steadyClock.now();
    if (cached === undefined || nowMs - cached.atMs > cacheMs) {
      const lookup = { atMs: nowMs, tables: store.query<NamedTable>(TABLES) };
      cached = lookup;
      lookup.tables.catch(() => {
        if (cached === lookup) cached = undefined;
      });
    }
    return uuidOf(store.localName?.(table) ?? table, await cached.tables);
  };
}

function uuidOf(table: string, tables: readonly NamedTable[]): string {
  const found = tables.find(({ name }) => name === table);
  if (found === undefined) throw new Unavailable(`there is no table ${table}`);
  return found.uuid;
}
