/** Index of entities in memory by project and id. Evicts the least recently used entities that ClickHouse already has. */
import type { TruncatedRange, TruncationParticipant } from '@questlog/runtime/log/truncation/participants';
import { BoundedMap } from '@questlog/runtime/process/boundedMap';
import type { BoundedResource } from '@questlog/runtime/process/metrics';

interface IndexedEntity<Entity> {
  readonly entity: Entity;
  readonly partition: number;
  /** Offset of the entity's first record. The value is -1 if the entity comes from ClickHouse. */
  readonly firstOffset: number;
}

interface Entry<Entity> extends IndexedEntity<Entity> {
  readonly lastOffset: number;
}

/** Compact storage for entities that never change and that ClickHouse might not have yet. */
export interface PackedEntities<Entity> {
  readonly isFull: boolean;
  readonly bytes: number;
  readonly maxBytes: number;
  get(name: string): IndexedEntity<Entity> | undefined;
  put(name: string, indexed: IndexedEntity<Entity>): void;
  /** Removes entities in steps of a few milliseconds. The caller runs the steps with the returned iterator. */
  remove(isRemoved: (partition: number, firstOffset: number) => boolean): Iterable<void> & Iterator<void>;
}

export interface EntityRules<Entity> {
  /** Merges two versions of an entity. The record of `earlier` has a lower offset than the record of `later`. */
  merge(earlier: Entity, later: Entity): Entity;
  /** True if the entity contains the content of its first record. False if only ClickHouse has the first record. */
  isComplete(entity: Entity): boolean;
  /** Returns the memory use of an entity in units of about 600 bytes. The minimum is 1. */
  weightOf(entity: Entity): number;
  /** True if the entity is not erased. After an erasure, the next record with the same id creates a new entity. */
  isVisible(projectId: string, entity: Entity): boolean;
  /** Compact storage. Above `maxWeight`, entities that ClickHouse does not have yet move to the compact storage. */
  readonly packed?: PackedEntities<Entity>;
}

export interface IndexBounds {
  /** Limit for the total memory of all entities, in units of about 600 bytes. */
  readonly maxWeight: number;
  /**
   * Limit for the memory of the entities that ClickHouse might not have, in units of about 600 bytes. Above the limit, this
   * process rejects new registrations.
   */
  readonly maxUnprojectedWeight: number;
  /** Maximum bytes of the compact storage. An index with a compact storage ignores `maxUnprojectedWeight`. */
  readonly maxPackedBytes?: number;
  /** Number of slots in the cache of recently used sessions. Must be a power of two. */
  readonly recentSlots?: number;
}

/** `maxWeight` is about 60 MB of memory. `maxUnprojectedWeight` is about 300 MB of memory. */
export const DEFAULT_BOUNDS: IndexBounds = { maxWeight: 100_000, maxUnprojectedWeight: 500_000 };
const BYTES_PER_WEIGHT = 600;
const EVICTION_STEPS_PER_WEIGHT = 8;
const STORED_ONLY = -1;

export class EntityIndex<Entity> implements TruncationParticipant {
  evictedBelow: readonly number[] = [];
  #projected: readonly number[] = [];
  readonly #rules: EntityRules<Entity>;
  readonly #bounds: IndexBounds;
  /** Entries with their total weight. Evicts nothing itself, because only `#evict` knows which entries ClickHouse has. */
  readonly #entries: BoundedMap<string, Entry<Entity>>;
  #packedRemoval: Iterator<void> | undefined;

  constructor(rules: EntityRules<Entity>, bounds = DEFAULT_BOUNDS) {
    this.#rules = rules;
    this.#bounds = bounds;
    this.#entries = new BoundedMap(Infinity, ({ entity }) => rules.weightOf(entity));
  }

  /** For each partition, the offset below which ClickHouse has all records. A restore of a backup decreases this offset. */
  get projected(): readonly number[] {
    return this.#projected;
  }

  set projected(projected: readonly number[]) {
    this.#projected = projected;
    this.evictedBelow = projected.map((end, partition) => Math.max(end, this.evictedBelow[partition] ?? 0));
  }

  get isFull(): boolean {
    return this.#rules.packed?.isFull ?? this.#entries.weight >= this.#bounds.maxUnprojectedWeight;
  }

  /** Memory of the entities that ClickHouse might not have, in bytes. At the limit, this process rejects new registrations. */
  asResource(resource: string): BoundedResource {
    const { packed } = this.#rules;
    if (packed !== undefined) return { resource, limit: packed.maxBytes, used: () => packed.bytes };
    const limit = this.#bounds.maxUnprojectedWeight * BYTES_PER_WEIGHT;
    return { resource, limit, used: () => this.#entries.weight * BYTES_PER_WEIGHT };
  }

  /** Evicts entities that ClickHouse has. Does nothing if `projected` is unchanged, because an eviction takes milliseconds. */
  evictProjected(projected: readonly number[]): void {
    if (projected.some((offset, partition) => offset !== this.projected[partition])) {
      this.projected = projected;
      this.#evict(Number.POSITIVE_INFINITY);
      this.#packedRemoval = this.#rules.packed?.remove((partition, offset) =>
        this.#isProjected(partition, offset),
      );
    }
    this.#packedRemoval?.next();
  }

  get(projectId: string, id: string): IndexedEntity<Entity> | undefined {
    const cached = this.#cached(projectId, id);
    return cached !== undefined && this.#rules.isVisible(projectId, cached.entity) ? cached : undefined;
  }

  hasHidden(projectId: string, id: string): boolean {
    const cached = this.#cached(projectId, id);
    if (cached === undefined || this.get(projectId, id) !== undefined) return false;
    const { lastOffset = cached.firstOffset } = this.#entries.get(`${projectId}/${id}`) ?? {};
    return !this.#isProjected(cached.partition, lastOffset);
  }

  getComplete(projectId: string, id: string): Entity | undefined {
    const cached = this.get(projectId, id);
    return cached !== undefined && this.#rules.isComplete(cached.entity) ? cached.entity : undefined;
  }

  /** Copies the cached entities to `found`. Returns the ids of the entities that are not cached. */
  collect(projectId: string, ids: readonly string[], found: Map<string, Entity>): string[] {
    return ids.filter((id) => {
      if (found.has(id)) return false;
      const cached = this.get(projectId, id);
      if (cached === undefined || !this.#rules.isComplete(cached.entity)) return true;
      if (this.#entries.weight > this.#bounds.maxWeight / 2) this.#entries.touch(`${projectId}/${id}`);
      found.set(id, cached.entity);
      return false;
    });
  }

  putRecord(
    projectId: string,
    id: string,
    { entity, partition, offset }: { entity: Entity; partition: number; offset: number },
  ): Entity {
    const cached = this.get(projectId, id);
    const merged = cached === undefined ? entity : this.#rules.merge(cached.entity, entity);
    // Ignores a record that does not change the entity, because the entity must stay in the index if a truncation removes this
    // record.
    if (merged === cached?.entity) return merged;
    const isCached = cached !== undefined && this.#rules.isComplete(cached.entity);
    const firstOffset = isCached ? cached.firstOffset : offset;
    this.#put(`${projectId}/${id}`, { entity: merged, partition, firstOffset, lastOffset: offset });
    return merged;
  }

  putStored(projectId: string, id: string, entity: Entity): Entity {
    const cached = this.get(projectId, id);
    const merged = cached === undefined ? entity : this.#rules.merge(entity, cached.entity);
    const { partition, firstOffset } = cached ?? { partition: 0, firstOffset: STORED_ONLY };
    const name = `${projectId}/${id}`;
    const lastOffset = this.#entries.get(name)?.lastOffset ?? firstOffset;
    this.#put(name, { entity: merged, partition, firstOffset, lastOffset });
    // Drops the entity if the index is still full after an eviction. A later lookup can read the entity from ClickHouse.
    if (cached === undefined && this.#entries.weight > this.#bounds.maxWeight) this.#entries.delete(name);
    return merged;
  }

  /** Removes the entities that were created or changed by lost records. The log has lost all records at or after the offset. */
  onTruncated({ partition, offset }: TruncatedRange): void {
    // Lowers the cached offsets to the first lost offset, because new records reuse the offsets of lost records.
    const truncated = (ends: readonly number[]) =>
      ends.map((end, entryPartition) => (entryPartition === partition ? Math.min(end, offset) : end));
    this.#projected = truncated(this.#projected);
    this.evictedBelow = truncated(this.evictedBelow);
    for (const [name, entry] of this.#entries) {
      if (entry.partition === partition && entry.lastOffset >= offset) this.#entries.delete(name);
    }
    const isRemoved = (entryPartition: number, firstOffset: number) =>
      entryPartition === partition && firstOffset >= offset;
    // This loop has no `await`. During an `await`, other code could read entities whose records the log has lost.
    for (const _ of this.#rules.packed?.remove(isRemoved) ?? []);
  }

  #cached(projectId: string, id: string): IndexedEntity<Entity> | undefined {
    const name = `${projectId}/${id}`;
    return this.#entries.get(name) ?? this.#rules.packed?.get(name);
  }

  #put(name: string, entry: Entry<Entity>): void {
    this.#entries.set(name, entry);
    if (this.#entries.weight > this.#bounds.maxWeight)
      this.#evict(EVICTION_STEPS_PER_WEIGHT * this.#rules.weightOf(entry.entity));
  }

  #evict(steps: number): void {
    const { packed } = this.#rules;
    for (const [name, entry] of this.#entries) {
      if (this.#entries.weight <= this.#bounds.maxWeight || steps-- <= 0) return;
      if (!this.#isProjected(entry.partition, entry.lastOffset)) {
        if (packed === undefined) continue;
        packed.put(name, entry);
      }
      this.#entries.delete(name);
    }
  }

  #isProjected(partition: number, offset: number): boolean {
    return offset < (this.projected[partition] ?? 0);
  }
}
