/** Checks whether an accepted `ALTER` or `DELETE` of a table is still being applied. */
import { Unavailable } from '../process/errors.ts';
import type { Store } from './store.ts';

/** ClickHouse's error ABORTED. */
const ABORTED_PREFIX = 'Code: 236.';
/** A mutation aborted longer ago may be blocked. */
const ABORT_GRACE_SECONDS = 60;

/**
 * Returns true while a mutation of the table is unfinished. An aborted mutation has not failed: dropping any partition,
 * even a missing one, cancels running mutations, and ClickHouse restarts them.
 * @param kind text that the mutation's command contains.
 * @throws Unavailable with ClickHouse's reason if a mutation failed, or is not running a minute after an abort.
 */
export async function isMutating(store: Pick<Store, 'query'>, table: string, kind = ''): Promise<boolean> {
  const [running] = await store.query<{ reason: string }>(
    `SELECT if(startsWith(latest_fail_reason, '${ABORTED_PREFIX}') AND latest_fail_time > now() - ${ABORT_GRACE_SECONDS},
       '', latest_fail_reason) AS reason FROM system.mutations
     WHERE database = currentDatabase() AND table = {table:String} AND NOT is_done
       AND position(command, {kind:String}) > 0
     ORDER BY reason DESC LIMIT 1`,
    { table, kind },
  );
  const reason = running?.reason ?? '';
  if (reason !== '') throw new Unavailable(`${table}: ClickHouse cannot finish a mutation: ${reason}`);
  return running !== undefined;
}
