/** Shares ClickHouse between tenants. */
import { availableParallelism } from 'node:os';
import type { Store } from '@questlog/runtime/clickhouse/store';
import { Shares } from '../limits/shares.ts';

/** Queries of reads at once, and no more than there are cores. The embedded ClickHouse runs eight: what is stored comes beside them. */
const READS_AT_ONCE = 6;
/** Where there are fewer cores: one query must not be all that is read. */
const FEWEST_AT_ONCE = 2;

/**
 * A query names its project or its tenant.
 * @param cores of this machine, where ClickHouse may run, too: more queries than cores read no more, and each write waits for its
 *   turn among their threads.
 */
export function sharedReads(
  store: Store,
  projects: ReadonlyMap<string, { tenantId: string }>,
  cores = availableParallelism(),
): Store {
  const atOnce = Math.min(READS_AT_ONCE, Math.max(FEWEST_AT_ONCE, cores));
  const shares = new Shares('reads', atOnce);
  return {
    ...store,
    query: (sql, params = {}, settings = {}) => {
      const { projectId, tenantId } = params;
      const whose = tenantId ?? projects.get(String(projectId))?.tenantId;
      return shares.run(String(whose), () => store.query(sql, params, settings));
    },
  };
}
