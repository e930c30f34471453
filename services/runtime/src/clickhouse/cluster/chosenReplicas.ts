/**
 * Limits a query of all shards to the replicas that have all committed rows. ClickHouse itself chooses a replica of each shard,
 * and does not consider the delay of a replica if a Distributed table reads a view.
 */
import { Unavailable } from '../../process/errors.ts';
import type { Store } from '../store.ts';
import type { Member } from './clusterMembers.ts';
import { quoted } from './tables/clusterSchema.ts';

export type QuerySettings = Readonly<Record<string, string | number>>;

interface Choice {
  readonly database: string;
  /** Replicas that have all rows. At least one of each shard that can have rows. */
  readonly complete: readonly Member[];
  /** Local tables of the query whose rows differ between the shards. */
  readonly tables: readonly string[];
}

/**
 * Returns the settings for a query that runs on `node`. A replica that lacks rows rejects the query before the replica reads
 * rows. ClickHouse uses such a replica only if the connection to a complete replica fails, or if the complete
 * replicas of the shards have different positions in `remote_servers`.
 */
export function onCompleteReplicas(node: Member, choice: Choice): QuerySettings {
  const { complete } = choice;
  const others = complete.map(({ shard }) => shard).filter((shard) => shard !== node.shard);
  const hasComplete = (position: number) => (shard: string) =>
    complete.some((member) => member.shard === shard && member.position === position);
  const position = complete.find(({ position: own }) => others.every(hasComplete(own)))?.position;
  return {
    additional_table_filters: rejectOthers(choice),
    // A hedged request ignores the position, and asks a second replica if the first is slow.
    use_hedged_requests: 0,
    ...(position === undefined
      ? {}
      : { load_balancing: 'first_or_random', load_balancing_first_offset: position }),
  };
}

/** ClickHouse evaluates the subquery of this filter on each node that reads the tables, even if no row matches the query. */
function rejectOthers({ database, complete, tables }: Choice): string {
  const names = complete
    .map(({ shard, replica }) => `(${quoted(shard)}, ${quoted(replica)})`)
    .toSorted()
    .join(', ');
  const isOther = `(getMacro('shard'), getMacro('replica')) NOT IN (${names})`;
  const filter = `(SELECT throwIf(${isOther}, 'this replica does not have all rows yet')) = 0`;
  return `{${tables.map((table) => `${quoted(`${database}.${table}`)}: ${quoted(filter)}`).join(', ')}}`;
}

/** By default, ClickHouse tries three times for 10 s to connect to a node that is suspended. */
export const CONNECT_BRIEFLY = {
  skip_unavailable_shards: 1,
  handshake_timeout_ms: 1_000,
  connections_with_failover_max_tries: 1,
};

/**
 * Rejects the result of a query if the node that ran the query can connect to a replica that possibly lacks rows.
 * @param node node that has run the query
 * @param complete replicas that had all rows
 */
export async function rejectOtherReplicas(
  node: Store,
  clusterName: string,
  complete: readonly Member[],
): Promise<void> {
  const reachable = await node.query<{ shard: string; replica: string }>(
    `SELECT getMacro('shard') AS shard, getMacro('replica') AS replica FROM clusterAllReplicas('${clusterName}', system.one)`,
    {},
    CONNECT_BRIEFLY,
  );
  const other = reachable.find(
    ({ shard, replica }) => !complete.some((member) => member.shard === shard && member.replica === replica),
  );
  if (other !== undefined)
    throw new Unavailable(`ClickHouse: ${other.replica} of shard ${other.shard} does not have all rows yet`);
}
