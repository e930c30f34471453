/** One replicated table: the parts and mutations that Keeper lists, and the copy of each node. */
import type { Row } from '../clickhouse/expressions.ts';
import type { TableDefinition } from '../clickhouse/tableDefinition.ts';
import type { ClusterNode } from './clusterNode.ts';

export interface Part {
  /** Position among the parts and mutations of the table. */
  readonly number: number;
  rows: readonly Row[];
  /** Number of nodes whose copies complete the insert. */
  readonly quorum: number;
  /** True after a quorum of nodes had the part. Keeper never drops the part afterwards. */
  isComplete: boolean;
}

interface Mutation {
  readonly number: number;
  readonly sql: string;
  apply(rows: readonly Row[]): readonly Row[];
}

interface Copy {
  readonly parts: Map<Part, readonly Row[]>;
  /** Number of applied mutations. */
  mutations: number;
}

/** Copies that a row needs to survive the loss of one node. */
const DURABLE = 2;

export class ReplicatedTable {
  readonly name: string;
  readonly definition: TableDefinition;
  readonly nodes: readonly ClusterNode[];
  /** Parts that Keeper lists. */
  readonly parts = new Set<Part>();
  readonly mutations: Mutation[] = [];
  /** Part of each deduplication token. Undefined if Keeper has the token of a part that was dropped. */
  readonly tokens = new Map<string, Part | undefined>();
  readonly #copies = new Map<ClusterNode, Copy>();
  readonly #durable = new WeakSet<Part>();
  #numbers = 0;

  constructor(name: string, definition: TableDefinition, nodes: readonly ClusterNode[]) {
    this.name = name;
    this.definition = definition;
    this.nodes = nodes;
    this.reset([]);
  }

  /** Creates a part on one node. */
  add(node: ClusterNode, rows: readonly Row[], quorum: number): Part {
    const part: Part = { number: ++this.#numbers, rows, quorum, isComplete: false };
    this.parts.add(part);
    this.copy(node, part);
    return part;
  }

  /** Adds a part to the copy of a node. */
  copy(node: ClusterNode, part: Part): void {
    const { parts, mutations } = this.#copyOf(node);
    parts.set(part, this.#mutated(part, mutations));
    const copies = this.holders(part).length;
    if (copies >= part.quorum) part.isComplete = true;
    if (copies >= DURABLE) this.#durable.add(part);
  }

  mutate(sql: string, apply: Mutation['apply']): Mutation {
    const mutation = { number: ++this.#numbers, sql, apply };
    this.mutations.push(mutation);
    return mutation;
  }

  /** Applies all mutations to the copy of a node. */
  applyMutations(node: ClusterNode): void {
    const copy = this.#copyOf(node);
    copy.mutations = this.mutations.length;
    for (const part of copy.parts.keys()) copy.parts.set(part, this.#mutated(part, copy.mutations));
  }

  /** Changes all rows on all nodes at once. */
  change(apply: Mutation['apply']): void {
    for (const { parts, mutations } of this.#copies.values()) {
      for (const part of parts.keys()) {
        part.rows = apply(part.rows);
        parts.set(part, this.#mutated(part, mutations));
      }
    }
  }

  /** Returns the statements that a node has not applied. */
  runningMutations(node: ClusterNode): string[] {
    return this.mutations.slice(this.#copyOf(node).mutations).map(({ sql }) => sql);
  }

  holders(part: Part): ClusterNode[] {
    return this.nodes.filter((node) => this.has(node, part));
  }

  has(node: ClusterNode, part: Part): boolean {
    return this.#copyOf(node).parts.has(part);
  }

  lacks(node: ClusterNode): Part[] {
    return [...this.parts].filter((part) => !this.has(node, part));
  }

  /** Removes a part from the list of Keeper. A node keeps its copy until `removeDropped`. */
  drop(part: Part, keepsToken: boolean): void {
    this.parts.delete(part);
    for (const [token, of] of this.tokens) {
      if (of !== part) continue;
      if (keepsToken) this.tokens.set(token, undefined);
      else this.tokens.delete(token);
    }
  }

  /** Removes the copies of parts that Keeper does not list any more. */
  removeDropped(node: ClusterNode): void {
    const { parts } = this.#copyOf(node);
    for (const part of parts.keys()) if (!this.parts.has(part)) parts.delete(part);
  }

  /** Empties the disk of a node. */
  lose(node: ClusterNode): void {
    this.#copies.set(node, { parts: new Map(), mutations: this.mutations.length });
  }

  /** Replaces all rows on all nodes. */
  reset(rows: readonly Row[]): void {
    this.parts.clear();
    this.mutations.length = 0;
    this.tokens.clear();
    for (const node of this.nodes) this.lose(node);
    const part: Part = { number: ++this.#numbers, rows, quorum: 1, isComplete: true };
    this.parts.add(part);
    for (const node of this.nodes) this.copy(node, part);
  }

  /** Merges all parts, if each node has them and has applied all mutations. */
  merge(): void {
    if (!this.isEqualOnAllNodes) return;
    const tokens = new Map(this.tokens);
    this.reset(this.definition.latest(this.rows()));
    for (const token of tokens.keys()) this.tokens.set(token, [...this.parts][0]);
  }

  get isEqualOnAllNodes(): boolean {
    return this.nodes.every(
      (node) =>
        this.#copyOf(node).parts.size === this.parts.size &&
        this.lacks(node).length === 0 &&
        this.runningMutations(node).length === 0,
    );
  }

  /** Returns the rows of all parts that Keeper lists, after all mutations. */
  rows(): Row[] {
    return [...this.parts].flatMap((part) => this.#mutated(part, this.mutations.length));
  }

  /** Returns the rows that have survived or would survive the loss of one node. */
  durableRows(): Row[] {
    return [...this.parts]
      .filter((part) => this.#durable.has(part))
      .flatMap((part) => this.#mutated(part, this.mutations.length));
  }

  rowsOn(node: ClusterNode): Row[] {
    return [...this.#copyOf(node).parts.values()].flat();
  }

  #mutated({ rows, number }: Part, mutations: number): readonly Row[] {
    return this.mutations
      .slice(0, mutations)
      .reduce((mutated, mutation) => (mutation.number > number ? mutation.apply(mutated) : mutated), rows);
  }

  #copyOf(node: ClusterNode): Copy {
    const copy = this.#copies.get(node);
    if (copy === undefined) throw new Error(`${node.url} has no table ${this.name}`);
    return copy;
  }
}
