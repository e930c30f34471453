/** Checks whether ClickHouse is still applying a mutation (`ALTER` or `DELETE`) to a table. */
import { Unavailable } from '../../process/errors.ts';
import type { Store } from '../store.ts';

const ABORTED_PREFIX = 'Code: 236.';
/** ClickHouse usually restarts an aborted mutation within this time. A mutation that stays aborted longer counts as failed. */
const ABORT_GRACE_SECONDS = 60;

/**
 * Returns true while a mutation of the table is running. An aborted mutation counts as running, because ClickHouse aborts and
 * restarts mutations when a partition is dropped.
 * @throws Unavailable if a mutation failed, or if an aborted mutation was not restarted within a minute.
 */
export async function isMutating(
  store: Pick<Store, 'query' | 'localName'>,
  table: string,
  kind = '',
): Promise<boolean> {
  const [running] = await store.query<{ reason: string }>(
    `SELECT if(startsWith(latest_fail_reason, '${ABORTED_PREFIX}') AND latest_fail_time > now() - ${ABORT_GRACE_SECONDS},
       '', latest_fail_reason) AS reason FROM system.mutations
     WHERE database = currentDatabase() AND table = {table:String} AND NOT is_done
       AND position(command, {kind:String}) > 0
     ORDER BY reason DESC LIMIT 1`,
    { table: store.localName?.(table) ?? table, kind },
  );
  const reason = running?.reason ?? '';
  if (reason !== '') throw new Unavailable(`${table}: ClickHouse cannot finish a mutation: ${reason}`);
  return running !== undefined;
}
