/**
 * In-memory index of entities by project and id. Evicts the least recently used entities, but no entity that ClickHouse may not
 * have.
 */

interface IndexedEntity<Entity> {
  readonly entity: Entity;
  readonly partition: number;
  /** Offset of the first record of the entity that was read. -1 if the entity is from ClickHouse. */
  readonly firstOffset: number;
}

interface Entry<Entity> extends IndexedEntity<Entity> {
  /** Offset of the last record that changed the entity. */
  readonly lastOffset: number;
  readonly weight: number;
}

/** Compact storage for unprojected entities that no later record changes. */
export interface PackedEntities<Entity> {
  /** True if no more entities may be registered. */
  readonly isFull: boolean;
  get(name: string): IndexedEntity<Entity> | undefined;
  put(name: string, indexed: IndexedEntity<Entity>): void;
  /** Removes the entities that match, in steps of a few milliseconds. */
  remove(isRemoved: (partition: number, firstOffset: number) => boolean): Iterable<void> & Iterator<void>;
}

export interface EntityRules<Entity> {
  /** Merges two versions of an entity. `earlier` comes from a lower offset. */
  merge(earlier: Entity, later: Entity): Entity;
  /** False if the entity's first record may be in ClickHouse only. */
  isComplete(entity: Entity): boolean;
  /** Memory of the entity in units of about 600 bytes. At least 1. */
  weightOf(entity: Entity): number;
  /** True if the entity was erased. The next record of its id is then a first record. */
  isErased?(projectId: string, entity: Entity): boolean;
  /** Storage for unprojected entities above `maxWeight`. Undefined if these entities stay in the index. */
  readonly packed?: PackedEntities<Entity>;
}

/** Limits in units of weight. */
export interface IndexBounds {
  /** Above this weight, the index keeps only unprojected entities, and packs them if possible. */
  readonly maxWeight: number;
  /** Above this weight, registrations are rejected. Entities that other processes register are still added. */
  readonly maxUnprojectedWeight: number;
  /** Maximum bytes of packed entities. Replaces `maxUnprojectedWeight` if entities are packed. */
  readonly maxPackedBytes?: number;
  /** Number of sessions in the cache of `peek`, a power of two. */
  readonly recentSlots?: number;
}

/** Default limits: about 60 MB and about 300 MB. */
export const DEFAULT_BOUNDS: IndexBounds = { maxWeight: 100_000, maxUnprojectedWeight: 500_000 };
/** Number of the oldest entries that an insertion checks for eviction, per unit of its weight. */
const EVICTION_STEPS_PER_WEIGHT = 8;
const STORED_ONLY = -1;

export class EntityIndex<Entity> {
  /** Per partition, the offset below which entries may be evicted or were never read. */
  evictedBelow: readonly number[] = [];
  #projected: readonly number[] = [];
  readonly #rules: EntityRules<Entity>;
  readonly #bounds: IndexBounds;
  readonly #entries = new Map<string, Entry<Entity>>();
  #weight = 0;
  /** Running removal of projected entities from the packed storage. */
  #packedRemoval: Iterator<void> | undefined;

  constructor(rules: EntityRules<Entity>, bounds = DEFAULT_BOUNDS) {
    this.#rules = rules;
    this.#bounds = bounds;
  }

  /** Per partition, the offset below which ClickHouse has all records. It decreases if ClickHouse's tables are restored. */
  get projected(): readonly number[] {
    return this.#projected;
  }

  set projected(projected: readonly number[]) {
    this.#projected = projected;
    this.evictedBelow = projected.map((end, partition) => Math.max(end, this.evictedBelow[partition] ?? 0));
  }

  get isFull(): boolean {
    return this.#rules.packed?.isFull ?? this.#weight >= this.#bounds.maxUnprojectedWeight;
  }

  /** Evicts projected entries. Does nothing if the progress is unchanged, because checking every entry takes milliseconds. */
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
    return cached !== undefined && this.#rules.isErased?.(projectId, cached.entity) ? undefined : cached;
  }

  /** True if the index has an erased entity whose rows may still be written. */
  hasErased(projectId: string, id: string): boolean {
    const cached = this.#cached(projectId, id);
    if (cached === undefined || this.get(projectId, id) !== undefined) return false;
    const { lastOffset = cached.firstOffset } = this.#entries.get(`${projectId}/${id}`) ?? {};
    return !this.#isProjected(cached.partition, lastOffset);
  }

  getComplete(projectId: string, id: string): Entity | undefined {
    const cached = this.get(projectId, id);
    return cached !== undefined && this.#rules.isComplete(cached.entity) ? cached.entity : undefined;
  }

  /** Adds complete entities to `found`. Returns the ids that `found` still does not have. */
  collect(projectId: string, ids: readonly string[], found: Map<string, Entity>): string[] {
    return ids.filter((id) => {
      if (found.has(id)) return false;
      const cached = this.get(projectId, id);
      if (cached === undefined || !this.#rules.isComplete(cached.entity)) return true;
      if (this.#weight > this.#bounds.maxWeight / 2) this.#touch(`${projectId}/${id}`);
      found.set(id, cached.entity);
      return false;
    });
  }

  /** Adds a record that was read from the log. Returns the merged entity. */
  putRecord(
    projectId: string,
    id: string,
    { entity, partition, offset }: { entity: Entity; partition: number; offset: number },
  ): Entity {
    const cached = this.get(projectId, id);
    const merged = cached === undefined ? entity : this.#rules.merge(cached.entity, entity);
    // The record changes nothing, so the entity must remain if a truncation removes the record.
    if (merged === cached?.entity) return merged;
    const isCached = cached !== undefined && this.#rules.isComplete(cached.entity);
    const firstOffset = isCached ? cached.firstOffset : offset;
    this.#put(`${projectId}/${id}`, { entity: merged, partition, firstOffset, lastOffset: offset });
    return merged;
  }

  /** Adds an entity from ClickHouse, which is older than the records from the log. Returns the merged entity. */
  putStored(projectId: string, id: string, entity: Entity): Entity {
    const cached = this.get(projectId, id);
    const merged = cached === undefined ? entity : this.#rules.merge(entity, cached.entity);
    const { partition, firstOffset } = cached ?? { partition: 0, firstOffset: STORED_ONLY };
    const name = `${projectId}/${id}`;
    const lastOffset = this.#entries.get(name)?.lastOffset ?? firstOffset;
    this.#put(name, { entity: merged, partition, firstOffset, lastOffset });
    // Removes the stored entity if unprojected entries use all space, because a later eviction could not remove it either.
    if (cached === undefined && this.#weight > this.#bounds.maxWeight) this.#delete(name);
    return merged;
  }

  /** Removes the entities whose last change is at or above the lost offset. */
  truncate(partition: number, offset: number): void {
    // Projected offsets above the truncation belong to lost records.
    const truncated = (ends: readonly number[]) =>
      ends.map((end, entryPartition) => (entryPartition === partition ? Math.min(end, offset) : end));
    this.#projected = truncated(this.#projected);
    this.evictedBelow = truncated(this.evictedBelow);
    for (const [name, entry] of this.#entries) {
      if (entry.partition === partition && entry.lastOffset >= offset) this.#delete(name);
    }
    const isRemoved = (entryPartition: number, firstOffset: number) =>
      entryPartition === partition && firstOffset >= offset;
    // Removes all lost entities in one step, so that no lookup can return a lost entity.
    for (const _ of this.#rules.packed?.remove(isRemoved) ?? []);
  }

  #cached(projectId: string, id: string): IndexedEntity<Entity> | undefined {
    const name = `${projectId}/${id}`;
    return this.#entries.get(name) ?? this.#rules.packed?.get(name);
  }

  #put(name: string, entry: Omit<Entry<Entity>, 'weight'>): void {
    const weight = this.#rules.weightOf(entry.entity);
    this.#weight += weight - (this.#entries.get(name)?.weight ?? 0);
    this.#entries.set(name, { ...entry, weight });
    if (this.#weight > this.#bounds.maxWeight) this.#evict(EVICTION_STEPS_PER_WEIGHT * weight);
  }

  #touch(name: string): void {
    const entry = this.#entries.get(name);
    if (entry === undefined) return;
    this.#entries.delete(name);
    this.#entries.set(name, entry);
  }

  /**
   * Evicts entries, oldest first. An insertion can evict several entries, because a heavy entry can replace several light
   * entries.
   */
  #evict(steps: number): void {
    const { packed } = this.#rules;
    for (const [name, entry] of this.#entries) {
      if (this.#weight <= this.#bounds.maxWeight || steps-- <= 0) return;
      if (!this.#isProjected(entry.partition, entry.lastOffset)) {
        if (packed === undefined) continue;
        packed.put(name, entry);
      }
      this.#delete(name);
    }
  }

  #isProjected(partition: number, offset: number): boolean {
    return offset < (this.projected[partition] ?? 0);
  }

  #delete(name: string): void {
    this.#weight -= this.#entries.get(name)?.weight ?? 0;
    this.#entries.delete(name);
  }
}
