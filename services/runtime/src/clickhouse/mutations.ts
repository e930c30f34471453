/** What ClickHouse still has to change of a table, behind an `ALTER` or a `DELETE` that was taken. */
import { Unavailable } from '../process/errors.ts';
import type { Store } from './store.ts';

/** ABORTED, as ClickHouse writes it. */
const ABORTED_PREFIX = 'Code: 236.';
/** Longer ago, somebody may keep it from running. */
const ABORT_GRACE_SECONDS = 60;

/**
 * A mutation that was cut short has not failed: whoever drops a partition of the table, even one that is not there, cancels
 * what runs, and ClickHouse begins it again by itself.
 * @param kind what its command contains; all of them without.
 * @throws Unavailable with ClickHouse's reason where one fails, or was last cut a minute ago and has not ended since.
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
