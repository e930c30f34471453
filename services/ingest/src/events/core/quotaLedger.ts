/**
 * Use of a tenant's quota in a month: the events in the rollup, this process's later appends, and its running appends. Pure.
 */

/** Row of the rollup: the number of the tenant's events in one partition of a log, up to an offset. */
export interface RollupRow {
  readonly logId: string;
  readonly partition: number;
  readonly used: number;
  readonly lastOffset: number;
}

/** Distances between use and quota, in events and as a fraction. Within the larger one, the rollup is read more often. */
const NEAR_EVENTS = 2_000;
const NEAR_FRACTION = 0.05;

/**
 * Maximum own appends in memory, about 40 bytes each. Above the limit, adjacent appends are merged. A merged append counts until
 * all its offsets are projected.
 */
const MAX_OWN_APPENDS = 10_000;

interface OwnAppend {
  readonly offset: number;
  readonly events: number;
}

export class QuotaLedger {
  readonly #logId: string;
  readonly #maxOwn: number;
  #rollupUsed = 0;
  /** Last offset in the rollup, per partition of this log. The rows of other logs are only summed. */
  readonly #lastOffsets = new Map<number, number>();
  /** Number of events in other logs, per partition. After a truncation, the projector moves the lost events to another log. */
  #usedInOtherLogsByPartition = new Map<number, number>();
  /** Values of truncated partitions. They are stale until the projector has detected the truncation. */
  readonly #stale = new Map<number, { readonly lastOffset: number; readonly usedInOtherLogs: number }>();
  readonly #ownAppends = new Map<number, OwnAppend[]>();
  #ownUsed = 0;
  #reserved = 0;

  constructor(logId: string, maxOwn = MAX_OWN_APPENDS) {
    this.#logId = logId;
    this.#maxOwn = maxOwn;
  }

  used(): number {
    return this.#rollupUsed + this.#ownUsed + this.#reserved;
  }

  /**
   * True if the use is slightly below the quota. Above the quota, every event is flagged, so the appends of other processes do
   * not matter.
   */
  isNearQuota(quota: number): boolean {
    const distance = quota - this.used();
    return distance > 0 && distance < Math.max(NEAR_EVENTS, quota * NEAR_FRACTION);
  }

  /**
   * Replaces the values of the rollup with newly read rows. Stops counting the own appends that the rows include.
   * @param projected per partition, the offset below which all records were projected before the rows were read. The offsets in
   * the rows can be lower, because duplicates do not change them.
   */
  refresh(rows: readonly RollupRow[], projected: readonly number[]): void {
    this.#rollupUsed = 0;
    this.#usedInOtherLogsByPartition = new Map();
    const covered = new Map(projected.map((end, partition) => [partition, end - 1]));
    for (const { logId, partition, used, lastOffset } of rows) {
      this.#rollupUsed += used;
      if (logId === this.#logId) covered.set(partition, Math.max(lastOffset, covered.get(partition) ?? -1));
      else this.#usedInOtherLogsByPartition.set(partition, used + this.#usedInOtherLogs(partition));
    }
    for (const [partition, lastOffset] of covered) {
      const stale = this.#stale.get(partition);
      // The offset alone is not enough, because the projector may have reached the same offset again, with other records.
      if (stale?.lastOffset === lastOffset && stale.usedInOtherLogs === this.#usedInOtherLogs(partition))
        continue;
      this.#stale.delete(partition);
      this.#cover(partition, lastOffset);
    }
  }

  /** Removes the own appends from the lost offset on, except appends that are already projected. */
  truncate(partition: number, offset: number): void {
    const covered = this.#lastOffsets.get(partition) ?? -1;
    if (covered >= offset) {
      // Keeps the first stale values, because after two truncations the rows may still be from before the first truncation.
      if (!this.#stale.has(partition))
        this.#stale.set(partition, {
          lastOffset: covered,
          usedInOtherLogs: this.#usedInOtherLogs(partition),
        });
      this.#lastOffsets.set(partition, offset - 1);
    }
    this.#filterOwn(partition, (own) => own.offset < offset);
  }

  /**
   * Counts events before they are appended, so that concurrent requests include each other's events. Returns the use before the
   * call.
   */
  reserve(events: number): number {
    const before = this.used();
    this.#reserved += events;
    return before;
  }

  confirm(partition: number, offset: number, events: number): void {
    this.#reserved -= events;
    if (offset <= (this.#lastOffsets.get(partition) ?? -1)) return;
    const own = this.#ownAppends.get(partition) ?? [];
    own.push({ offset, events });
    this.#ownAppends.set(partition, own.length > this.#maxOwn ? merged(own, this.#maxOwn / 2) : own);
    this.#ownUsed += events;
  }

  /** Stops counting reserved events that are probably not in the log. */
  release(events: number): void {
    this.#reserved -= events;
  }

  #usedInOtherLogs(partition: number): number {
    return this.#usedInOtherLogsByPartition.get(partition) ?? 0;
  }

  #cover(partition: number, lastOffset: number): void {
    const covered = Math.max(lastOffset, this.#lastOffsets.get(partition) ?? -1);
    this.#lastOffsets.set(partition, covered);
    this.#filterOwn(partition, ({ offset }) => offset > covered);
  }

  #filterOwn(partition: number, isKept: (own: OwnAppend) => boolean): void {
    const own = this.#ownAppends.get(partition) ?? [];
    const kept = own.filter(isKept);
    for (const { events } of own) this.#ownUsed -= events;
    for (const { events } of kept) this.#ownUsed += events;
    this.#ownAppends.set(partition, kept);
  }
}

/** Merges appends of adjacent offsets. Returns at most `groupCount` + 1 appends. */
function merged(own: readonly OwnAppend[], groupCount: number): OwnAppend[] {
  const [first, last] = [own.at(0)?.offset ?? 0, own.at(-1)?.offset ?? 0];
  // The number of offsets per group is a power of two, so that each group of a later merge contains complete earlier groups.
  const offsetsOfOne = 2 ** Math.ceil(Math.log2((last - first + 1) / groupCount));
  const groups = Map.groupBy(own, ({ offset }) => Math.floor(offset / offsetsOfOne));
  return [...groups.values()].map((group) =>
    group.reduce((a, b) => ({ offset: Math.max(a.offset, b.offset), events: a.events + b.events })),
  );
}
