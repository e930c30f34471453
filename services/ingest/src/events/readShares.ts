/** Shares ClickHouse between tenants. */
import { availableParallelism } from 'node:os';
import type { Store } from '@questlog/runtime/clickhouse/store';
import { Shares } from '../limits/shares.ts';

/** Queries of reads at once. The embedded ClickHouse runs eight: what is stored comes beside them. */
const READS_AT_ONCE = 6;
/** Of one tenant where there are fewer cores: one query must not be all that is read. */
const FEWEST_AT_ONCE = 2;
/** Beside those reads, and each is short. One tenant's reads and look-ups leave the embedded ClickHouse a place. */
const LOOK_UPS_AT_ONCE = 3;

type Projects = ReadonlyMap<string, { readonly tenantId: string }>;

/**
 * For what is read.
 * @param isEngineHere whether ClickHouse runs on this machine: more queries of a tenant than cores read no more there, and each
 *   write waits for its turn among their threads.
 */
export function sharedReads(
  store: Store,
  projects: Projects,
  { isEngineHere, cores = availableParallelism() }: { isEngineHere: boolean; cores?: number },
): Store {
  const ofOne = isEngineHere ? Math.max(FEWEST_AT_ONCE, cores) : READS_AT_ONCE;
  return shared(store, projects, new Shares('reads', Math.min(READS_AT_ONCE, ofOne + 1)));
}

/** For what a write has to know first: it waits for no read, and unknown ids of all projects of a tenant hold few connections. */
export function sharedLookUps(store: Store, projects: Projects): Store {
  return shared(store, projects, new Shares('look-ups', LOOK_UPS_AT_ONCE));
}

/** A query names its project or its tenant; one that names neither is the process's own, and waits for nobody. */
function shared(store: Store, projects: Projects, shares: Shares): Store {
  return {
    ...store,
    query: (sql, params = {}, settings = {}) => {
      const { projectId, tenantId = projects.get(String(projectId))?.tenantId } = params;
      const ask = () => store.query<never>(sql, params, settings);
      return tenantId === undefined ? ask() : shares.run(String(tenantId), ask);
    },
  };
}
