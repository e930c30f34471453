/** Entities by project and id, the least recently used first; what is not in ClickHouse yet never leaves. */

interface IndexedEntity<Entity> {
  readonly entity: Entity;
  readonly partition: number;
  /** Of the first record that was read here; -1: read from ClickHouse. */
  readonly firstOffset: number;
}

interface Entry<Entity> extends IndexedEntity<Entity> {
  /** Of the last record that changed something. */
  readonly lastOffset: number;
  readonly weight: number;
}

/** Where entities stand in less memory while ClickHouse may not have them: those that later records do not change. */
export interface PackedEntities<Entity> {
  /** Nothing more should be registered. */
  readonly isFull: boolean;
  get(name: string): IndexedEntity<Entity> | undefined;
  put(name: string, indexed: IndexedEntity<Entity>): void;
  /** Forgets those of which this is true, in steps of a few milliseconds. */
  remove(isRemoved: (partition: number, firstOffset: number) => boolean): Iterable<void> & Iterator<void>;
}

export interface EntityRules<Entity> {
  /** Merges two things that are known of one entity; `earlier` stands further ahead in the log. */
  merge(earlier: Entity, later: Entity): Entity;
  /** False where its first record may be one that is in ClickHouse only. */
  isComplete(entity: Entity): boolean;
  /** How much memory it takes, in units of some 600 bytes; at least 1. */
  weightOf(entity: Entity): number;
  /** What was erased is as if it were not here: its rows go, and the next record of its id is the first. */
  isErased?(projectId: string, entity: Entity): boolean;
  /** Takes what there are too many of and must not leave. Without it they stay as they are. */
  readonly packed?: PackedEntities<Entity>;
}

/** In units of weight. */
export interface IndexBounds {
  /** Beyond it only entries are kept that are not in ClickHouse yet, packed where they can be. */
  readonly maxWeight: number;
  /**
   * While ClickHouse is away nothing may leave: from here on no further entity is registered through this process. What
   * others register is still taken in, or answers would say that it is not there.
   */
  readonly maxUnprojectedWeight: number;
  /** Takes the place of `held` where entries are packed. In bytes. */
  readonly maxPackedBytes?: number;
  /** Of sessions, how many `peek` remembers: a power of two. */
  readonly recentSlots?: number;
}

/** About 60 and 300 MB. */
export const DEFAULT_BOUNDS: IndexBounds = { maxWeight: 100_000, maxUnprojectedWeight: 500_000 };
/** How many of the oldest entries an insertion looks at when there are too many, for each unit of its weight. */
const EVICTION_STEPS_PER_WEIGHT = 8;
const STORED_ONLY = -1;

export class EntityIndex<Entity> {
  /** Per partition, the offset below which entries may have left, or were never here: ClickHouse had them. */
  evictedBelow: readonly number[] = [];
  #projected: readonly number[] = [];
  readonly #rules: EntityRules<Entity>;
  readonly #bounds: IndexBounds;
  readonly #entries = new Map<string, Entry<Entity>>();
  #weight = 0;
  /** Of what was packed and has been projected. */
  #packedRemoval: Iterator<void> | undefined;

  constructor(rules: EntityRules<Entity>, bounds = DEFAULT_BOUNDS) {
    this.#rules = rules;
    this.#bounds = bounds;
  }

  /** Per partition, what ClickHouse has: entries below may leave. Beside restored tables it may be less than it was. */
  get projected(): readonly number[] {
    return this.#projected;
  }

  set projected(projected: readonly number[]) {
    this.#projected = projected;
    this.evictedBelow = projected.map((end, partition) => Math.max(end, this.evictedBelow[partition] ?? 0));
  }

  /** Nothing more should be registered. */
  get isFull(): boolean {
    return this.#rules.packed?.isFull ?? this.#weight >= this.#bounds.maxUnprojectedWeight;
  }

  /**
   * Where there are too many, looks at every entry, which takes milliseconds: only once ClickHouse has more than it had.
   * Goes a step on through what is packed.
   */
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

  /** One that `get` leaves out, and whose rows may still come. */
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

  /** Adds those that are here, whole, to `found` and returns the others. */
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

  /** A record of the tail. Returns all that is known of its entity. */
  putRecord(
    projectId: string,
    id: string,
    { entity, partition, offset }: { entity: Entity; partition: number; offset: number },
  ): Entity {
    const cached = this.get(projectId, id);
    const merged = cached === undefined ? entity : this.#rules.merge(cached.entity, entity);
    // It changes nothing: a cut that takes this record leaves what is known.
    if (merged === cached?.entity) return merged;
    const isCached = cached !== undefined && this.#rules.isComplete(cached.entity);
    const firstOffset = isCached ? cached.firstOffset : offset;
    this.#put(`${projectId}/${id}`, { entity: merged, partition, firstOffset, lastOffset: offset });
    return merged;
  }

  /** Takes over what ClickHouse has, which comes before whatever the tail has read. Returns all that is known of the entity. */
  putStored(projectId: string, id: string, entity: Entity): Entity {
    const cached = this.get(projectId, id);
    const merged = cached === undefined ? entity : this.#rules.merge(entity, cached.entity);
    const { partition, firstOffset } = cached ?? { partition: 0, firstOffset: STORED_ONLY };
    const name = `${projectId}/${id}`;
    const lastOffset = this.#entries.get(name)?.lastOffset ?? firstOffset;
    this.#put(name, { entity: merged, partition, firstOffset, lastOffset });
    // Behind entries that cannot leave, it could not leave either.
    if (cached === undefined && this.#weight > this.#bounds.maxWeight) this.#delete(name);
    return merged;
  }

  /** The log no longer holds what it held from the offset on. What was read there is forgotten. */
  truncate(partition: number, offset: number): void {
    // What was projected beyond it were other records.
    const truncated = (ends: readonly number[]) =>
      ends.map((end, entryPartition) => (entryPartition === partition ? Math.min(end, offset) : end));
    this.#projected = truncated(this.#projected);
    this.evictedBelow = truncated(this.evictedBelow);
    for (const [name, entry] of this.#entries) {
      if (entry.partition === partition && entry.lastOffset >= offset) this.#delete(name);
    }
    const isRemoved = (entryPartition: number, firstOffset: number) =>
      entryPartition === partition && firstOffset >= offset;
    // All at once: none of them may be found any more.
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

  /** A heavy entry may take the place of many light ones. */
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
