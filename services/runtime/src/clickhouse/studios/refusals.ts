/** Checks whether a node of ClickHouse can have accounts of studios. */
import { ClickHouseError } from '@clickhouse/client';
import { Unavailable } from '../../process/errors.ts';
import { CONNECT_BRIEFLY } from '../cluster/chosenReplicas.ts';
import type { AddressedStore, Store } from '../store.ts';
import { isOlderVersion } from '../waitForClickHouse.ts';

/** Before this version, `mergeTreeIndex` reads rows that a policy hides (ClickHouse#115304). */
export const MIN_VERSION = '26.7.6.5';
/** Value of `system.processes.interface` for a connection between nodes that uses the cluster's secret. */
const WITH_SECRET = 7;
const ACCESS_DENIED = '497';

/** Returns why the node must not have accounts of studios. Undefined if the node can have accounts. */
export async function refusalOf(
  store: AddressedStore,
  { cluster, minVersion }: { readonly cluster: string | undefined; readonly minVersion: string },
): Promise<string | undefined> {
  const [row] = await store.query<{ version: string }>('SELECT version() AS version');
  const version = row?.version ?? '';
  if (isOlderVersion(version, minVersion))
    return `ClickHouse ${version} is too old for accounts of studios, which need ${minVersion} or newer`;
  for (const grant of ['ACCESS MANAGEMENT ON *.*', 'SELECT ON system.*']) {
    const [check] = await store.query<{ result: number }>(`CHECK GRANT ${grant}`);
    if (check?.result !== 1) return missingGrants(store);
  }
  return cluster === undefined ? undefined : await clusterRefusal(store, cluster);
}

/**
 * Without a secret, a node runs the queries of other nodes as a user of its own. If the node lacks the account of a studio, the
 * policies of the account do not apply.
 */
async function clusterRefusal(store: Store, cluster: string): Promise<string | undefined> {
  const connections = await store.query<{ interface: number }>(
    `SELECT DISTINCT interface FROM clusterAllReplicas({cluster:String}, system.processes)
     WHERE initial_query_id = initialQueryID() AND NOT is_initial_query`,
    { cluster },
    CONNECT_BRIEFLY,
  );
  if (connections.every((connection) => connection.interface === WITH_SECRET)) return undefined;
  return `accounts of studios need a <secret> for the cluster ${cluster} in remote_servers`;
}

/** By default, ClickHouse permits every user to read system tables such as `query_log`, unless the setting is enabled. */
export async function requireHiddenSystemTables(store: Store, username: string): Promise<void> {
  const grants = await store.query<Record<string, string>>(
    `SHOW GRANTS FOR \`${username}\` WITH IMPLICIT FINAL`,
  );
  if (!grants.some((row) => / ON (?:system|\*)\.\* /.test(Object.values(row).join()))) return;
  throw new Unavailable(
    'accounts of studios need select_from_system_db_requires_grant in the access_control_improvements of ClickHouse',
  );
}

export function missingGrants({ username, database }: AddressedStore): string {
  const grants = `GRANT ACCESS MANAGEMENT ON *.* TO ${username}; GRANT SELECT ON system.* TO ${username}; GRANT SELECT ON ${database}.* TO ${username} WITH GRANT OPTION`;
  return `the account ${username} needs more permissions for accounts of studios: ${grants}`;
}

/** True if the product's account lacks a permission. */
export function isDenied(error: unknown): error is Error {
  return (
    error instanceof Error && error.cause instanceof ClickHouseError && error.cause.code === ACCESS_DENIED
  );
}
