/**
 * Chooses the node that runs a query. The node has all committed rows of the tables that it reads itself. If a query reads all
 * shards, every replica that ClickHouse can choose has all committed rows.
 */
import { Unavailable } from '../../process/errors.ts';
import type { Logger } from '../../process/logger.ts';
import { pause, withinLimit } from '../../process/waiting.ts';
import type { Store } from '../store.ts';
import type { Member } from './clusterMembers.ts';
import { localName, SHARDED } from './clusterSchema.ts';
import { type ReplicaSet, syncTables, tablesIn } from './quorumStore.ts';

export interface ReadDeps {
  /** Name of the cluster in `remote_servers`. */
  readonly name: string;
  /** Number of nodes of the cluster. */
  readonly size: number;
  /** Returns the shards that can have rows. */
  readonly shards: () => readonly string[];
  readonly tablesOf: ReplicaSet['tablesOf'];
  readonly members: () => readonly Member[];
  readonly logger: Pick<Logger, 'warn'>;
}

export interface ClusterReads {
  /** Runs `work` on a node that has all committed rows. @throws Unavailable with the name of a shard that does not answer */
  run<T>(sql: string, work: (node: Store) => Promise<T>): Promise<T>;
  close(): void;
}

/** Time limit for a replica to fetch its missing parts. */
const SYNC_LIMIT_MS = 10_000;
/** Pause between two probes of a node that did not answer or lacked rows. */
const PROBE_PAUSE_MS = 500;

export function openClusterReads(deps: ReadDeps): ClusterReads {
  const { members, shards, tablesOf } = deps;
  const closing = new AbortController();
  const silent = new SilentNodes(closing.signal, deps.logger);
  const sync = async (member: Member, tables: readonly string[]): Promise<boolean> => {
    try {
      await withinLimit(syncedOrAlive(member.store, tables), SYNC_LIMIT_MS, () => {
        throw new Unavailable('no answer in time');
      });
      return true;
    } catch (error) {
      if (!(error instanceof Unavailable)) throw error;
      silent.add(member, error, () => syncedOrAlive(member.store, tables));
      return false;
    }
  };
  const onAnyNode = async <T>(tables: readonly string[], work: (node: Store) => Promise<T>): Promise<T> => {
    for (const member of silent.last(members())) {
      if (await sync(member, tables)) return await work(member.store);
    }
    throw new Unavailable(`ClickHouse: no node of the cluster ${deps.name} answers`);
  };
  const onAllShards = async <T>(tables: readonly string[], work: (node: Store) => Promise<T>): Promise<T> => {
    const synced: Member[] = [];
    const missingShard = () => shards().find((shard) => !synced.some((member) => member.shard === shard));
    // Waits for a node that failed an earlier query only if no other replica of its shard answers.
    for (const group of silent.groups(members())) {
      if (missingShard() === undefined) break;
      const answers = await Promise.all(group.map((member) => sync(member, tables)));
      synced.push(...group.filter((_, node) => answers[node]));
    }
    const missing = missingShard();
    if (missing !== undefined) throw new Unavailable(`ClickHouse: no replica of shard ${missing} answers`);
    const [{ store: node }] = shuffled(synced) as [Member];
    const result = await work(node);
    if (synced.length < deps.size) await rejectOtherReplicas(node, deps, synced);
    return result;
  };
  return {
    run: async (sql, work) => {
      const tables = tablesIn(sql, tablesOf);
      return await (isSharded(tables) ? onAllShards(tables, work) : onAnyNode(tables, work));
    },
    close: () => closing.abort(),
  };
}

async function syncedOrAlive(store: Store, tables: readonly string[]): Promise<void> {
  if (tables.length > 0) return await syncTables(store, tables);
  if (!(await store.ping())) throw new Unavailable('does not answer');
}

/** Remembers nodes that did not answer or lacked rows, until a probe succeeds. */
class SilentNodes {
  readonly #silent = new Set<string>();
  readonly #signal: AbortSignal;
  readonly #logger: ReadDeps['logger'];

  constructor(signal: AbortSignal, logger: ReadDeps['logger']) {
    this.#signal = signal;
    this.#logger = logger;
  }

  add({ address: { url } }: Member, { message }: Error, probe: () => Promise<void>): void {
    if (this.#silent.has(url)) return;
    this.#silent.add(url);
    this.#logger.warn('clickhouse_node_silent', { node: url, cause: message });
    const probeSucceeds = () =>
      probe().then(
        () => true,
        () => false,
      );
    void (async () => {
      do await pause(PROBE_PAUSE_MS, this.#signal);
      while (!this.#signal.aborted && !(await probeSucceeds()));
      this.#silent.delete(url);
    })();
  }

  /** Returns the nodes in random order: first the nodes that answered, then the other nodes. */
  groups(members: readonly Member[]): Member[][] {
    const isSilent = ({ address }: Member): boolean => this.#silent.has(address.url);
    const all = shuffled(members);
    return [all.filter((member) => !isSilent(member)), all.filter(isSilent)];
  }

  last(members: readonly Member[]): Member[] {
    return this.groups(members).flat();
  }
}

function shuffled<T>(items: readonly T[]): T[] {
  return items
    .map((item) => ({ item, at: Math.random() }))
    .sort((a, b) => a.at - b.at)
    .map(({ item }) => item);
}

/** By default, ClickHouse tries three times for 10 s to connect to a node that is suspended. */
export const CONNECT_BRIEFLY = {
  skip_unavailable_shards: 1,
  handshake_timeout_ms: 1_000,
  connections_with_failover_max_tries: 1,
};

/**
 * Rejects the result of a query if the node that ran the query can connect to a replica that possibly lacks rows. ClickHouse
 * chooses a replica of each shard itself, and ignores the delay of a replica if a Distributed table reads a view.
 * @param node node that has run the query
 * @param synced replicas that had all rows
 */
async function rejectOtherReplicas(
  node: Store,
  { name }: ReadDeps,
  synced: readonly Member[],
): Promise<void> {
  const reachable = await node.query<{ shard: string; replica: string }>(
    `SELECT getMacro('shard') AS shard, getMacro('replica') AS replica FROM clusterAllReplicas('${name}', system.one)`,
    {},
    CONNECT_BRIEFLY,
  );
  const other = reachable.find(
    ({ shard, replica }) => !synced.some((member) => member.shard === shard && member.replica === replica),
  );
  if (other !== undefined)
    throw new Unavailable(`ClickHouse: ${other.replica} of shard ${other.shard} does not have all rows yet`);
}

const SHARDED_TABLES: ReadonlySet<string> = new Set([...SHARDED].map(localName));

/** True if one of the local tables is sharded. */
export function isSharded(tables: readonly string[]): boolean {
  return tables.some((table) => SHARDED_TABLES.has(table));
}
