/** Refuses the start if row policies hide the product's own rows. Hidden rows would look like lost rows. */
import { StartRefused, Unavailable } from '../../process/errors.ts';
import { withinAnswerLimit } from '../cluster/clusterNodes.ts';
import { localName, PARTITION_SHARDS } from '../cluster/tables/clusterSchema.ts';
import { openStore, type Store, type StoreOptions } from '../store.ts';
import { STUDIO_RULES } from '../studioTables.ts';

/** Questlog's tables and views. The database can also contain tables of the operator. */
const OWN_TABLES = [
  ...Object.keys(STUDIO_RULES).flatMap((table) => [table, localName(table)]),
  PARTITION_SHARDS,
];

/**
 * Reads one row of each of Questlog's tables that has rows, on every node that answers within 10 s. Also reads rows that a
 * lightweight DELETE has removed, because the number of rows in `system.tables` contains these rows.
 * @throws StartRefused with the names of the tables whose rows are hidden
 */
export async function requireVisibleRows(
  nodes: readonly StoreOptions[],
  open: (options: StoreOptions) => Store = openStore,
): Promise<void> {
  await Promise.all(nodes.map((address) => requireVisibleRowsOn(address, open(address))));
}

async function requireVisibleRowsOn(address: StoreOptions, store: Store): Promise<void> {
  try {
    const query = store.query<{ name: string }>(
      `SELECT name FROM system.tables
       WHERE database = currentDatabase() AND name IN {own:Array(String)} AND engine LIKE '%MergeTree' AND total_rows > 0`,
      { own: OWN_TABLES },
    );
    const tables = await withinAnswerLimit(address.url, query);
    if (tables.length === 0) return;
    const counts = tables.map(
      ({ name }) => `(SELECT count() FROM (SELECT 1 FROM ${name} LIMIT 1)) AS ${name}`,
    );
    const [visible = {}] = await store.query<Record<string, string>>(
      `SELECT ${counts.join(', ')}`,
      {},
      { apply_deleted_mask: 0 },
    );
    const hidden = Object.keys(visible).filter((name) => visible[name] === '0');
    if (hidden.length === 0) return;
    throw new StartRefused(
      `ClickHouse ${address.url}: a row policy hides the rows of ${hidden.join(', ')} from the account ${address.username}; create a policy USING 1 for this account`,
    );
  } catch (error) {
    if (!(error instanceof Unavailable)) throw error;
  } finally {
    await store.close();
  }
}
