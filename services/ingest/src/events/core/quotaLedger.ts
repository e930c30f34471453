/** Counts a tenant's events of a month: the count from ClickHouse plus the recent events of this process. */

/** Row of the rollup table: the number of a tenant's events in one partition of a log, up to an offset. */
export interface RollupRow {
  readonly logId: string;
  readonly partition: number;
  readonly used: number;
  readonly lastOffset: number;
}

/** A quota is nearly used up if fewer than `NEAR_EVENTS` events, or less than `NEAR_FRACTION` of the quota, are left. */
const NEAR_EVENTS = 2_000;
const NEAR_FRACTION = 0.05;

/**
 * Maximum number of appends in memory per partition. Each append needs about 40 bytes. Above this number, appends are merged.
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
  /** For each partition of the current log, the offset up to which ClickHouse's count includes all events. */
  readonly #lastOffsets = new Map<number, number>();
  #usedInOtherLogsByPartition = new Map<number, number>();
  /**
   * For each truncated partition, identifies the row with the counts from before the truncation. ClickHouse can still return
   * this outdated row.
   */
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

  /** True if the quota is nearly used up. An exact count is then needed. False if the quota is already exceeded. */
  isNearQuota(quota: number): boolean {
    const distance = quota - this.used();
    return distance > 0 && distance < Math.max(NEAR_EVENTS, quota * NEAR_FRACTION);
  }

  /**
   * Replaces ClickHouse's counts with the counts in `rows`. Afterwards, this process's own count no longer includes the events
   * that `rows` includes.
   * @param projected for each partition, the offset below which ClickHouse has all records. The caller must read `projected`
   * before `rows`. Otherwise, events could be missing in both counts.
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
      // The offset alone does not identify an outdated row, because a new row after a truncation can have the same offset.
      if (stale?.lastOffset === lastOffset && stale.usedInOtherLogs === this.#usedInOtherLogs(partition))
        continue;
      this.#stale.delete(partition);
      this.#cover(partition, lastOffset);
    }
  }

  /** Removes this process's appends at or after `offset` from the count, because the log has lost these appends. */
  truncate(partition: number, offset: number): void {
    const covered = this.#lastOffsets.get(partition) ?? -1;
    if (covered >= offset) {
      if (!this.#stale.has(partition))
        this.#stale.set(partition, {
          lastOffset: covered,
          usedInOtherLogs: this.#usedInOtherLogs(partition),
        });
      this.#lastOffsets.set(partition, offset - 1);
    }
    this.#filterOwn(partition, (own) => own.offset < offset);
  }

  /** Adds events to the count before their append, so that concurrent requests see the new count. Returns the old count. */
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

/** Merges neighboring appends until at most `groupCount` + 1 entries remain. */
function merged(own: readonly OwnAppend[], groupCount: number): OwnAppend[] {
  const [first, last] = [own.at(0)?.offset ?? 0, own.at(-1)?.offset ?? 0];
  // Uses a power of two as group size, because a later merge then joins whole groups and splits no group.
  const offsetsOfOne = 2 ** Math.ceil(Math.log2((last - first + 1) / groupCount));
  const groups = Map.groupBy(own, ({ offset }) => Math.floor(offset / offsetsOfOne));
  return [...groups.values()].map((group) =>
    group.reduce((a, b) => ({ offset: Math.max(a.offset, b.offset), events: a.events + b.events })),
  );
}
