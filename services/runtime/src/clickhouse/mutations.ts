/** Checks whether ClickHouse is still applying a mutation (`ALTER` or `DELETE`) to a table. */
import { Unavailable } from '../process/errors.ts';
import type { Store } from './store.ts';

/** Prefix of ClickHouse's error ABORTED. */
const ABORTED_PREFIX = 'Code: 236.';
/** Time after an abort within which ClickHouse restarts the mutation. Later, the mutation may be blocked. */
const ABORT_GRACE_SECONDS = 60;

/**
 * Returns true while a mutation of the table is unfinished. An aborted mutation has not failed. ClickHouse cancels running
 * mutations when any partition is dropped, even a missing partition, and restarts them.
 * @param kind text that the command of the mutation contains.
 * @throws Unavailable with ClickHouse's reason if a mutation failed, or if it is not running a minute after an abort.
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
