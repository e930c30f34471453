/** What ClickHouse still has to change of a table, behind an `ALTER` or a `DELETE` that was taken. */
import { Unavailable } from '../process/errors.ts';
import type { Store } from './store.ts';

/**
 * @param kind what its command contains; all of them without.
 * @throws Unavailable with ClickHouse's reason where one fails. One that was cut short is none: whoever drops a partition
 * of the table, even one that is not there, cancels what runs, and ClickHouse begins it again by itself.
 */
export async function isMutating(store: Pick<Store, 'query'>, table: string, kind = ''): Promise<boolean> {
  const [running] = await store.query<{ reason: string }>(
    `SELECT if(latest_fail_reason LIKE '%(ABORTED)%', '', latest_fail_reason) AS reason FROM system.mutations
     WHERE database = currentDatabase() AND table = {table:String} AND NOT is_done
       AND position(command, {kind:String}) > 0
     ORDER BY reason DESC LIMIT 1`,
    { table, kind },
  );
  const reason = running?.reason ?? '';
  if (reason !== '') throw new Unavailable(`${table}: ClickHouse cannot finish a mutation: ${reason}`);
  return running !== undefined;
}
