/** Which table stands under a name: a restore makes it under a new UUID; what changes a table keeps it. */
import { Unavailable } from '../process/errors.ts';
import type { Store } from './store.ts';

export async function tableUuid(store: Pick<Store, 'query'>, table: string): Promise<string> {
  const sql = 'SELECT uuid FROM system.tables WHERE database = currentDatabase() AND name = {table:String}';
  const [row] = await store.query<{ uuid: string }>(sql, { table });
  if (row === undefined) throw new Unavailable(`there is no table ${table}`);
  return row.uuid;
}
