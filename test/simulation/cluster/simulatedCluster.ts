/**
 * A ClickHouse cluster with two shards of two replicas. An insert creates a part on one node, and Keeper lists the part. The
 * other replicas fetch the part later. A query reads the parts of the nodes that ClickHouse chooses.
 */

import type { QuerySettings } from '@questlog/runtime/clickhouse/cluster/chosenReplicas';
import {
  type ClusterTable,
  clusterTables,
  localName,
  SHARDED,
} from '@questlog/runtime/clickhouse/cluster/tables/clusterSchema';
import { Unavailable } from '@questlog/runtime/process/errors';
import type { Row } from '../clickhouse/expressions.ts';
import { parseStatement } from '../clickhouse/parseSql.ts';
import { tableOf } from '../clickhouse/schema.ts';
import { type Catalog, runQuery } from '../clickhouse/select.ts';
import { queryOf, schemaOfMigrations, TableDefinition, viewNamed } from '../clickhouse/tableDefinition.ts';
import { type StoredTables, uuidAfter } from '../clickhouse/tables.ts';
import type { World } from '../world/world.ts';
import { ClusterNode } from './clusterNode.ts';
import { type Part, ReplicatedTable } from './replicatedTable.ts';

export const CLUSTER = 'simulated';
export const DATABASE = 'questlog';
const SHARDS = ['1', '2'];
const REPLICAS = ['a', 'b'];
const PARTITION_SHARDS = `CREATE TABLE partition_shards
  (log_partition UInt32, shard String, version UInt32, takes_effect_at DateTime64(3, 'UTC'))
  ENGINE = MergeTree ORDER BY (log_partition, version, shard)`;
const SHARD_QUORUMS = `CREATE TABLE shard_quorums
  (shard String, version UInt32, quorum UInt8, takes_effect_at DateTime64(3, 'UTC'))
  ENGINE = MergeTree ORDER BY (shard, version)`;
/** More partitions than a simulated topic has. */
const PARTITIONS = 16;
/** Pause before a node tries again to fetch a part or to apply a mutation. */
const RETRY_MS = 300;

interface Waiter {
  readonly node: ClusterNode;
  isOver(): boolean;
  tell(isInTime: boolean): void;
  forget(): void;
}

export class SimulatedCluster implements StoredTables {
  readonly nodes = SHARDS.flatMap((shard) => REPLICAS.map((replica) => new ClusterNode(shard, replica)));
  /** Pairs of nodes that cannot reach each other. */
  readonly cuts = new Set<string>();
  isKeeperDown = false;
  readonly #world: World;
  /** Tables by name. A sharded table has an entry per shard, with the name `events 1`. */
  readonly #tables = new Map<string, ReplicatedTable>();
  readonly #waiters = new Set<Waiter>();
  #restores = 0;
  readonly #catalog: Catalog = {
    rowsOf: (name, isFinal) => this.rowsOf(name, isFinal),
    viewOf: viewNamed,
  };

  constructor(world: World) {
    this.#world = world;
    const schemas = [
      ...schemaOfMigrations().tables,
      ['partition_shards', tableOf(PARTITION_SHARDS)] as const,
      ['shard_quorums', tableOf(SHARD_QUORUMS)] as const,
    ];
    for (const [name, schema] of schemas) {
      const definition = new TableDefinition(schema, this.#catalog);
      if (!SHARDED.has(name)) this.#tables.set(name, new ReplicatedTable(name, definition, this.nodes));
      else
        for (const shard of SHARDS) {
          const replicas = this.nodes.filter((node) => node.shard === shard);
          this.#tables.set(`${name} ${shard}`, new ReplicatedTable(localName(name), definition, replicas));
        }
    }
    const assignments = Array.from({ length: PARTITIONS }, (_, partition) => ({
      log_partition: partition,
      shard: SHARDS[partition % SHARDS.length],
      version: 0,
      takes_effect_at: 0,
    }));
    this.#tables.get('partition_shards')?.reset(assignments);
  }

  get nowMs(): number {
    return this.#world.nowMs;
  }

  get uuid(): string {
    return uuidAfter(this.#restores);
  }

  /** Runs a query on all rows that Keeper lists. */
  query(sql: string, params: Readonly<Record<string, unknown>> = {}): Row[] {
    return runQuery(queryOf(sql), this.#catalog, params);
  }

  /** Changes the rows on all nodes at once. */
  command(sql: string): void {
    const statement = parseStatement(sql);
    if (statement.kind === 'insert') throw new Error('an insert needs a node');
    for (const table of this.#tablesNamed(statement.table))
      table.change(table.definition.mutation(statement));
  }

  rowsOf(name: string, isFinal: boolean): readonly Row[] {
    return this.#rowsOf(name, isFinal, (table) => table.rows());
  }

  /** Tables with the rows that the loss of one node cannot remove. */
  readonly durable: Pick<StoredTables, 'rowsOf' | 'uuid'> = (() => {
    const rowsOf = (name: string, isFinal: boolean) =>
      this.#rowsOf(name, isFinal, (table) => table.durableRows());
    const uuid = () => this.uuid;
    return {
      rowsOf,
      get uuid() {
        return uuid();
      },
    };
  })();

  merge(name: string): void {
    for (const table of this.#tablesNamed(name)) table.merge();
  }

  backup(): () => void {
    const copies = [...this.#tables.values()].map((table) => ({ table, rows: table.rows() }));
    return () => {
      this.#restores++;
      for (const { table, rows } of copies) table.reset(rows);
      this.changed();
    };
  }

  /** Returns a sentence for each table whose replicas differ. */
  differences(): string[] {
    return [...this.#tables.values()]
      .filter((table) => !table.isEqualOnAllNodes)
      .map(({ name }) => `the replicas of ${name} have different rows`);
  }

  /** Returns what `system.tables` lists on each node. */
  tables(): ClusterTable[] {
    const { tables, views } = schemaOfMigrations();
    const plain = { settings: {}, comment: '', columns: [], indices: [] };
    const stored = [...tables.keys()].map((name) => ({ ...plain, name, engine: 'MergeTree', select: '' }));
    const selects = [...views].map(([name, { select }]) => ({
      ...{ ...plain, name, engine: 'View' },
      select: select.replace(/\b(FROM|JOIN)\s+(\w+)/g, `$1 ${DATABASE}.$2`),
    }));
    return clusterTables([...stored, ...selects], { from: DATABASE, database: DATABASE, cluster: CLUSTER });
  }

  /** Runs a query on one node. @throws Unavailable if a shard does not answer */
  queryOn(
    node: ClusterNode,
    sql: string,
    params: Readonly<Record<string, unknown>>,
    settings: QuerySettings,
  ): Row[] {
    return runQuery(queryOf(sql), this.catalogOf(node, settings), params);
  }

  /**
   * Rows that a query on the node reads. A Distributed table chooses a replica of each other shard: the replica at the position of
   * a setting, or any replica. The filter of a setting can reject the replica.
   */
  catalogOf(node: ClusterNode, settings: QuerySettings): Catalog {
    const { additional_table_filters: filters = '', load_balancing_first_offset: position = -1 } = settings;
    const chosen = new Map<string, ClusterNode>();
    const choose = (shard: string): ClusterNode | undefined => {
      if (shard === node.shard) return node;
      const preferred = this.replicasOf(shard)[Number(position)];
      const reachable = this.reachableFrom(node).filter((other) => other.shard === shard);
      return reachable.find((other) => other === preferred) ?? this.#world.dice.maybe(reachable);
    };
    const replicaOf = (shard: string): ClusterNode => {
      const replica = chosen.get(shard) ?? choose(shard);
      if (replica === undefined) throw new Unavailable(`no replica of shard ${shard} can be reached`);
      if (filters !== '' && !String(filters).includes(`\\'${shard}\\', \\'${replica.replica}\\'`))
        throw new Unavailable('FUNCTION_THROW_IF_VALUE_IS_NON_ZERO');
      chosen.set(shard, replica);
      return replica;
    };
    return {
      viewOf: viewNamed,
      rowsOf: (name, isFinal) => {
        const local = this.#tables.get(`${name.replace(/_local$/, '')} ${node.shard}`);
        if (local?.name === name) {
          const rows = local.rowsOn(node);
          return isFinal ? local.definition.latest(rows) : rows;
        }
        return this.#rowsOf(name, isFinal, (table, shard) =>
          table.rowsOn(shard === undefined ? node : replicaOf(shard)),
        );
      },
    };
  }

  /** Returns the replicas of a shard in the order of `remote_servers`. */
  replicasOf(shard: string): ClusterNode[] {
    return this.nodes.filter((node) => node.shard === shard);
  }

  reachableFrom(node: ClusterNode): ClusterNode[] {
    return this.nodes.filter((other) => other.answers(this.nowMs) && !this.#isCut(node, other));
  }

  /** @param name name of a table on the node */
  tableOn(node: ClusterNode, name: string): ReplicatedTable {
    const table = this.#tables.get(name) ?? this.#tables.get(`${name.replace(/_local$/, '')} ${node.shard}`);
    if (table === undefined) throw new Error(`the simulated ClickHouse has no table ${name}`);
    return table;
  }

  isWritable(node: ClusterNode): boolean {
    return !this.isKeeperDown && node.isWritable(this.nowMs);
  }

  isActive(node: ClusterNode): boolean {
    return node.isActive(this.nowMs);
  }

  runningMutations(node: ClusterNode): { table: string; sql: string }[] {
    return [...this.#tables.values()]
      .filter(({ nodes }) => nodes.includes(node))
      .flatMap((table) => table.runningMutations(node).map((sql) => ({ table: table.name, sql })));
  }

  /** Lets the other nodes of a table fetch a part. */
  announce(table: ReplicatedTable, part: Part): void {
    for (const node of table.nodes) this.#fetchLater(table, node, part);
  }

  /** Lets all nodes of a table apply its mutations. */
  announceMutations(table: ReplicatedTable): void {
    for (const node of table.nodes) this.#mutateLater(table, node, this.#world.dice.between(0, 100));
  }

  /** Lets a node fetch all parts that it lacks. */
  announceAllTo(node: ClusterNode): void {
    for (const table of this.#tables.values())
      if (table.nodes.includes(node))
        for (const part of table.lacks(node)) this.#fetchLater(table, node, part);
  }

  /** Returns a node with a part that no other node has. */
  onlyHolder(): ClusterNode | undefined {
    for (const table of this.#tables.values())
      for (const part of table.parts) {
        const [holder, ...others] = table.holders(part);
        if (others.length === 0 && holder !== undefined) return holder;
      }
    return undefined;
  }

  /** Deletes the rows of a node, for good. */
  lose(node: ClusterNode): void {
    for (const table of this.#tables.values()) if (table.nodes.includes(node)) table.lose(node);
    this.changed();
  }

  /** Removes the parts that no node has, as `SYSTEM DROP REPLICA` of a lost node allows. */
  dropLostParts(): void {
    for (const table of this.#tables.values())
      for (const part of table.parts)
        if (table.holders(part).length === 0) table.drop(part, this.#world.dice.chance(0.5));
    this.changed();
  }

  /** Removes from a node the parts that Keeper dropped while the node had no session. */
  removeDropped(node: ClusterNode): void {
    for (const table of this.#tables.values()) if (table.nodes.includes(node)) table.removeDropped(node);
    this.changed();
  }

  hasAllParts(node: ClusterNode): boolean {
    return [...this.#tables.values()].every(
      (table) => !table.nodes.includes(node) || table.lacks(node).length === 0,
    );
  }

  /** Calls `tell` when the condition is true, or after the time limit. */
  waitFor(
    node: ClusterNode,
    limitMs: number,
    isOver: () => boolean,
    tell: (isInTime: boolean) => void,
  ): void {
    if (isOver()) {
      tell(true);
      return;
    }
    const forget = this.#world.in(limitMs, this.#world.outside, 'time limit', () => {
      this.#waiters.delete(waiter);
      tell(false);
    });
    const waiter: Waiter = { node, isOver, tell, forget };
    this.#waiters.add(waiter);
  }

  /** Ends the waits whose conditions are true. */
  changed(): void {
    for (const waiter of this.#waiters) {
      if (!waiter.node.answers(this.nowMs) || !waiter.isOver()) continue;
      this.#waiters.delete(waiter);
      waiter.forget();
      waiter.tell(true);
    }
  }

  #fetchLater(
    table: ReplicatedTable,
    node: ClusterNode,
    part: Part,
    delayMs = this.#world.dice.between(0, 20),
  ): void {
    if (table.has(node, part)) return;
    const { disks } = node;
    this.#world.in(delayMs, this.#world.outside, `${node.url} fetches from ${table.name}`, () => {
      if (node.disks !== disks || !table.parts.has(part) || table.has(node, part)) return;
      if (this.#fetch(table, node, part)) this.changed();
      else this.#fetchLater(table, node, part, RETRY_MS + this.#world.dice.between(0, RETRY_MS));
    });
  }

  #fetch(table: ReplicatedTable, node: ClusterNode, part: Part): boolean {
    if (!this.isWritable(node) || this.nowMs < node.lagsUntilMs) return false;
    const holders = table.holders(part);
    if (this.reachableFrom(node).some((other) => holders.includes(other))) {
      table.copy(node, part);
      return true;
    }
    // Without an active replica that has the part, ClickHouse can give up an insert that waits for its quorum.
    const isLost = !part.isComplete && holders.every((holder) => !this.isActive(holder));
    if (isLost && this.#world.dice.chance(0.3)) table.drop(part, false);
    return isLost && !table.parts.has(part);
  }

  #mutateLater(table: ReplicatedTable, node: ClusterNode, delayMs: number): void {
    this.#world.in(delayMs, this.#world.outside, `${node.url} changes rows of ${table.name}`, () => {
      if (table.runningMutations(node).length === 0) return;
      if (!this.isWritable(node) || this.nowMs < node.lagsUntilMs)
        return this.#mutateLater(table, node, RETRY_MS + this.#world.dice.between(0, RETRY_MS));
      table.applyMutations(node);
      this.changed();
    });
  }

  #rowsOf(
    name: string,
    isFinal: boolean,
    rowsIn: (table: ReplicatedTable, shard: string | undefined) => readonly Row[],
  ): readonly Row[] {
    const whole = this.#tables.get(name);
    const tables = this.#tablesNamed(name);
    const rows = tables.flatMap((table, index) =>
      rowsIn(table, whole === undefined ? SHARDS[index] : undefined),
    );
    return isFinal ? (tables[0]?.definition.latest(rows) ?? []) : rows;
  }

  #tablesNamed(name: string): ReplicatedTable[] {
    const whole = this.#tables.get(name);
    if (whole !== undefined) return [whole];
    const parts = SHARDS.flatMap((shard) => this.#tables.get(`${name} ${shard}`) ?? []);
    if (parts.length === 0) throw new Error(`the simulated ClickHouse has no table ${name}`);
    return parts;
  }

  #isCut(a: ClusterNode, b: ClusterNode): boolean {
    return this.cuts.has(pairOf(a, b));
  }
}

export function pairOf(a: ClusterNode, b: ClusterNode): string {
  return [a.url, b.url].sort().join(' ');
}

/** Name of a view or table in a query, for traces. */
export function tableIn(sql: string): string {
  return /\b(?:FROM|INTO|REPLICA|TABLE) (\w+)/.exec(sql)?.[1] ?? '';
}
