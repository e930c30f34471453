/**
 * How many events of a tenant's month are used: the rollup in ClickHouse, plus what this process appended past the
 * rollup's offsets, plus what it is appending right now. Pure.
 */

/** One row of the rollup: how many events a partition of a log holds up to an offset. */
export interface RollupRow {
  readonly logId: string;
  readonly partition: number;
  readonly used: number;
  readonly lastOffset: number;
}

/** This close to the line (events, or a share of the quota), the rollup is read oftener. */
const NEAR_EVENTS = 2_000;
const NEAR_FRACTION = 0.05;

/**
 * Own appends of one partition that are told apart, some 40 bytes each. More wait for a projector that is away; then
 * neighbours in the log become one, and count until all of it is projected.
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
  /** Rows of this log; other logs' rows can only be summed. */
  readonly #lastOffsets = new Map<number, number>();
  /** Per partition, what the rollup holds under other logs' ids: the projector moves there what a cut has taken. */
  #usedInOtherLogsByPartition = new Map<number, number>();
  /** Of partitions that were cut, what a reading says until the projector has noticed it: of other records. */
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

  /** Past the line every event is flagged, whatever others append. */
  isNearQuota(quota: number): boolean {
    const distance = quota - this.used();
    return distance > 0 && distance < Math.max(NEAR_EVENTS, quota * NEAR_FRACTION);
  }

  /**
   * Takes over a reading (one at a time, each newer than the last); own appends that it covers are no longer counted
   * beside it.
   *
   * @param projected per partition of this log, the offset below which all was projected before the rows were read.
   *   The rows' own offsets do not tell that: consumers drop a repeat without moving them.
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
      // The projector may have come to the same offset again, with other records.
      if (stale?.lastOffset === lastOffset && stale.usedInOtherLogs === this.#usedInOtherLogs(partition))
        continue;
      this.#stale.delete(partition);
      this.#cover(partition, lastOffset);
    }
  }

  /**
   * The log no longer holds what it held from the offset on. Own appends that were projected are in the rollup for good,
   * others are gone.
   */
  truncate(partition: number, offset: number): void {
    const covered = this.#lastOffsets.get(partition) ?? -1;
    if (covered >= offset) {
      // After two cuts in a row a reading still says what it said before the first one.
      if (!this.#stale.has(partition))
        this.#stale.set(partition, {
          lastOffset: covered,
          usedInOtherLogs: this.#usedInOtherLogs(partition),
        });
      this.#lastOffsets.set(partition, offset - 1);
    }
    this.#filterOwn(partition, (own) => own.offset < offset);
  }

  /** Counts events before they are appended, so that concurrent requests see each other. Returns the use before them. */
  reserve(events: number): number {
    const before = this.used();
    this.#reserved += events;
    return before;
  }

  /** The reserved events are in the log, at this offset. */
  confirm(partition: number, offset: number, events: number): void {
    this.#reserved -= events;
    if (offset <= (this.#lastOffsets.get(partition) ?? -1)) return;
    const own = this.#ownAppends.get(partition) ?? [];
    own.push({ offset, events });
    this.#ownAppends.set(partition, own.length > this.#maxOwn ? merged(own, this.#maxOwn / 2) : own);
    this.#ownUsed += events;
  }

  /** The reserved events did not get into the log, as far as is known. */
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

/** Merges the appends of one range of offsets into the last of them; at most `parts` and one are left. */
function merged(own: readonly OwnAppend[], groupCount: number): OwnAppend[] {
  const [first, last] = [own.at(0)?.offset ?? 0, own.at(-1)?.offset ?? 0];
  // A power of two: the ranges of a later merge hold earlier ones whole.
  const offsetsOfOne = 2 ** Math.ceil(Math.log2((last - first + 1) / groupCount));
  const groups = Map.groupBy(own, ({ offset }) => Math.floor(offset / offsetsOfOne));
  return [...groups.values()].map((group) =>
    group.reduce((a, b) => ({ offset: Math.max(a.offset, b.offset), events: a.events + b.events })),
  );
}
