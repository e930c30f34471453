/**
 * Chooses the node that runs a query. The node has all committed rows of the tables that it reads itself. If a query reads all
 * shards, every replica that ClickHouse can choose has all committed rows.
 */
import { Unavailable } from '../../process/errors.ts';
import type { Logger } from '../../process/logger.ts';
import { shuffled } from '../../process/shuffled.ts';
import { pause, withinLimit } from '../../process/waiting.ts';
import type { AddressedStore, Store } from '../store.ts';
import { onCompleteReplicas, type QuerySettings, rejectOtherReplicas } from './chosenReplicas.ts';
import type { Member } from './clusterMembers.ts';
import { type ReplicaSet, syncTables, tablesIn } from './quorumStore.ts';
import { localName, SHARDED } from './tables/clusterSchema.ts';

export interface ReadDeps {
  /** Name of the cluster in `remote_servers`. */
  readonly name: string;
  /** Number of nodes of the cluster. */
  readonly size: number;
  /** Returns the shards that can have rows. */
  readonly shards: () => readonly string[];
  readonly database: string;
  readonly tablesOf: ReplicaSet['tablesOf'];
  /** Reads `tablesOf` again on a node. The result also has the views that operators have created since the start. */
  readonly latestTablesOf: (node: Store) => Promise<ReplicaSet['tablesOf']>;
  readonly members: () => readonly Member[];
  readonly logger: Pick<Logger, 'warn'>;
}

export interface ClusterReads {
  /**
   * Runs `work` on a node that has all committed rows. `work` must use the given settings for its query.
   * @throws Unavailable with the name of a shard that does not answer
   */
  run<T>(sql: string, work: (node: Store, settings: QuerySettings) => Promise<T>): Promise<T>;
  /**
   * Runs `work` with the reader of a node that has all committed rows. A read-only account cannot use settings, so the result is
   * rejected if ClickHouse may have read a replica that lacks rows.
   * @throws Unavailable if no node of a reader has all rows
   */
  runOn: NonNullable<Store['runOn']>;
  close(): void;
}

type IsUsable = (node: Member) => boolean;

interface Chosen {
  readonly node: Member;
  /** Replicas that have all rows. Undefined if the query reads only its own node, or if all replicas have all rows. */
  readonly complete: readonly Member[] | undefined;
}

/** Time limit for a replica to fetch its missing parts. */
const SYNC_LIMIT_MS = 10_000;
/** Pause between two probes of a node. */
const PROBE_PAUSE_MS = 500;

export function openClusterReads(deps: ReadDeps): ClusterReads {
  const { members, shards, tablesOf } = deps;
  const closing = new AbortController();
  const silent = new SilentNodes(closing.signal, deps.logger);
  const passes = async (member: Member, probe: () => Promise<void>): Promise<boolean> => {
    try {
      await withinLimit(probe(), SYNC_LIMIT_MS, () => {
        throw new Unavailable('no answer in time');
      });
      return true;
    } catch (error) {
      if (!(error instanceof Unavailable)) throw error;
      silent.add(member, error, probe);
      return false;
    }
  };
  const sync = (member: Member, tables: readonly string[]): Promise<boolean> =>
    passes(member, () => syncedOrAlive(member.store, tables));
  const findsShards = (member: Member): Promise<boolean> =>
    passes(member, () => requireShards(member.store, deps.name, shards().length));
  const onAnyNode = async (tables: readonly string[], isUsable: IsUsable): Promise<Chosen> => {
    for (const node of silent.last(members().filter(isUsable)))
      if (await sync(node, tables)) return { node, complete: undefined };
    throw new Unavailable(`ClickHouse: no usable node of the cluster ${deps.name} answers`);
  };
  const onAllShards = async (tables: readonly string[], isUsable: IsUsable): Promise<Chosen> => {
    const complete: Member[] = [];
    const missingShard = () => shards().find((shard) => !complete.some((member) => member.shard === shard));
    // Waits for a node that failed an earlier query only if no other replica of its shard answers.
    for (const group of silent.groups(members())) {
      if (missingShard() === undefined && complete.some(isUsable)) break;
      const answers = await Promise.all(group.map((member) => sync(member, tables)));
      complete.push(...group.filter((_, node) => answers[node]));
    }
    const missing = missingShard();
    if (missing !== undefined) throw new Unavailable(`ClickHouse: no replica of shard ${missing} answers`);
    for (const node of shuffled(complete).filter(isUsable))
      if (await findsShards(node))
        return { node, complete: complete.length === deps.size ? undefined : complete };
    throw new Unavailable(`ClickHouse: no usable node of the cluster ${deps.name} answers`);
  };
  const choose = (tables: readonly string[], isUsable: IsUsable): Promise<Chosen> =>
    isSharded(tables) ? onAllShards(tables, isUsable) : onAnyNode(tables, isUsable);
  return {
    run: async (sql, work) => {
      const tables = tablesIn(sql, tablesOf);
      const { node, complete } = await choose(tables, () => true);
      if (complete === undefined) return await work(node.store, {});
      const choice = { ...deps, complete, tables: tables.filter(isShardedTable) };
      return await work(node.store, onCompleteReplicas(node, choice));
    },
    runOn: async (sql, readers, work) => {
      const readerOf = ({ address }: Member) => readers.find(({ url }) => url === address.url);
      const isUsable = (member: Member): boolean => readerOf(member) !== undefined;
      const known = tablesIn(sql, tablesOf);
      let chosen = await choose(known, isUsable);
      const tables = tablesIn(sql, await deps.latestTablesOf(chosen.node.store));
      if (tables.some((table) => !known.includes(table))) chosen = await choose(tables, isUsable);
      const { node, complete } = chosen;
      const result = await work(readerOf(node) as AddressedStore);
      if (complete !== undefined) await rejectOtherReplicas(node.store, deps.name, complete);
      return result;
    },
    close: () => closing.abort(),
  };
}

async function syncedOrAlive(store: Store, tables: readonly string[]): Promise<void> {
  if (tables.length > 0) return await syncTables(store, tables);
  if (!(await store.ping())) throw new Unavailable('does not answer');
}

/** @throws Unavailable if queries on the node would omit a shard, because the node has an old list of nodes */
async function requireShards(store: Store, cluster: string, count: number): Promise<void> {
  const [row] = await store.query<{ shards: string }>(
    'SELECT uniqExact(shard_num) AS shards FROM system.clusters WHERE cluster = {cluster:String}',
    { cluster },
  );
  const shards = Number(row?.shards);
  if (shards < count)
    throw new Unavailable(
      `has ${shards} of ${count} shards in remote_servers; restart the node with the new list`,
    );
}

/** Remembers nodes that did not answer, or lacked rows or shards, until a probe succeeds. */
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

const SHARDED_TABLES: ReadonlySet<string> = new Set([...SHARDED].map(localName));

function isShardedTable(table: string): boolean {
  return SHARDED_TABLES.has(table);
}

/** True if one of the local tables is sharded. */
export function isSharded(tables: readonly string[]): boolean {
  return tables.some(isShardedTable);
}
