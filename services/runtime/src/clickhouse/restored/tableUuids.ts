/**
 * Looks up the UUIDs of ClickHouse tables, and detects for a projector that its tables were restored from a backup. A restored
 * table has another UUID than before (docs/decisions/0040).
 */
import type { CommitMetadata } from '../../log/projection/commitMetadata.ts';
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
  store: Pick<Store, 'query' | 'idTable'>,
): (table: string) => Promise<string> {
  const lookup = coalesceCalls(() => store.query<NamedTable>(TABLES));
  return async (table) => uuidOf(store.idTable?.(table) ?? table, await lookup());
}

const UUID_CACHE_MS = 1_000;

/** Returns a function that looks up the UUID of a table and caches it for `cacheMs`. A restored table has another UUID. */
export function cachedTableUuids(
  store: Pick<Store, 'query' | 'idTable'>,
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
    return uuidOf(store.idTable?.(table) ?? table, await cached.tables);
  };
}

function uuidOf(table: string, tables: readonly NamedTable[]): string {
  const found = tables.find(({ name }) => name === table);
  if (found === undefined) throw new Unavailable(`there is no table ${table}`);
  return found.uuid;
}

/** Id of the tables that a consumer group fills. The id is the UUID of one of these tables. */
export interface TablesId {
  /** Queries the id and never returns a cached id, because the tables can be restored between two blocks of records. */
  current(): Promise<string>;
  /** Returns an id that is at most `TABLES_ID_CACHE_MS` old. */
  cached(): Promise<string>;
}

/** Maximum age of a cached id. The projector must detect restored tables within 30 s, even without new records. */
const TABLES_ID_CACHE_MS = 15_000;

/** Returns a function that creates the `TablesId` of a consumer group. The UUID of `table` is the id of the group's tables. */
export function watchTablesId(store: Pick<Store, 'query' | 'idTable'>): (table: string) => TablesId {
  const [current, cached] = [coalescedTableUuids(store), cachedTableUuids(store, TABLES_ID_CACHE_MS)];
  return (table) => ({ current: () => current(table), cached: () => cached(table) });
}

/** Compares the id in the commits of a consumer group with the current id of the tables that the group fills. */
export class FilledTables {
  readonly #tablesId: TablesId;
  #id: string | undefined;

  constructor(tablesId: TablesId) {
    this.#tablesId = tablesId;
  }

  /** Id of the tables at the latest call of `wereRestored`. Undefined before the first call. */
  get id(): string | undefined {
    return this.#id;
  }

  /** Returns true if the tables were restored after the commit. Returns false for a commit without an id. */
  async wereRestored({ tables }: CommitMetadata): Promise<boolean> {
    this.#id = await this.#tablesId.current();
    return tables !== undefined && tables !== this.#id;
  }

  /** Returns true if the cached id differs from `id`. Returns false if ClickHouse is unavailable. */
  async mayBeRestored(): Promise<boolean> {
    try {
      return (await this.#tablesId.cached()) !== this.#id;
    } catch (error) {
      if (error instanceof Unavailable) return false;
      throw error;
    }
  }
}
