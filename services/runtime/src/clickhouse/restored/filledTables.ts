/** Detects for a projector that the tables that it fills were restored from a backup. */
import type { CommitMetadata } from '../../log/projection/commitMetadata.ts';
import { Unavailable } from '../../process/errors.ts';
import type { Store } from '../store.ts';
import { cachedTableUuids, coalescedTableUuids } from './tableUuids.ts';

/** Returns the current id of a set of tables. */
export interface TablesId {
  /** Never returns a cached id, because the tables can be restored between two blocks of records. */
  current(): Promise<string>;
  /** Returns the id of at most `CACHE_MS` ago. */
  cached(): Promise<string>;
}

/** Maximum age of a cached id. The projector must detect restored tables within 30 s, even without new records. */
const CACHE_MS = 15_000;

/** Returns a function that returns the id of the tables that are filled together with `table`. */
export function watchTablesId(store: Pick<Store, 'query' | 'localName'>): (table: string) => TablesId {
  const [current, cached] = [coalescedTableUuids(store), cachedTableUuids(store, CACHE_MS)];
  return (table) => ({ current: () => current(table), cached: () => cached(table) });
}

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

  /** Returns true if the tables were restored after the commit. Returns false if the commit of an operator has no id of tables. */
  async wereRestored({ tables }: CommitMetadata): Promise<boolean> {
    this.#id = await this.#tablesId.current();
    return tables !== undefined && tables !== this.#id;
  }

  /** Returns true if the cached id has changed. Returns false while ClickHouse is unavailable, because the id is then unknown. */
  async mayBeRestored(): Promise<boolean> {
    try {
      return (await this.#tablesId.cached()) !== this.#id;
    } catch (error) {
      if (error instanceof Unavailable) return false;
      throw error;
    }
  }
}
