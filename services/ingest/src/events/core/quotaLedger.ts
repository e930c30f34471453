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
const NEAR_SHARE = 0.05;

interface OwnAppend {
  readonly offset: number;
  readonly events: number;
}

export class QuotaLedger {
  readonly #logId: string;
  #rollupUsed = 0;
  /** Rows of this log; other logs' rows can only be summed. */
  readonly #lastOffsets = new Map<number, number>();
  readonly #own = new Map<number, OwnAppend[]>();
  #ownUsed = 0;
  #reserved = 0;

  constructor(logId: string) {
    this.#logId = logId;
  }

  used(): number {
    return this.#rollupUsed + this.#ownUsed + this.#reserved;
  }

  /** Past the line every event is flagged, whatever others append. */
  isNearLine(quota: number): boolean {
    const distance = quota - this.used();
    return distance > 0 && distance < Math.max(NEAR_EVENTS, quota * NEAR_SHARE);
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
    for (const row of rows) {
      this.#rollupUsed += row.used;
      if (row.logId === this.#logId) this.#cover(row.partition, row.lastOffset);
    }
    for (const [partition, end] of projected.entries()) this.#cover(partition, end - 1);
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
    const own = this.#own.get(partition);
    if (own === undefined) this.#own.set(partition, [{ offset, events }]);
    else own.push({ offset, events });
    this.#ownUsed += events;
  }

  /** The reserved events did not get into the log, as far as is known. */
  release(events: number): void {
    this.#reserved -= events;
  }

  #cover(partition: number, lastOffset: number): void {
    const covered = Math.max(lastOffset, this.#lastOffsets.get(partition) ?? -1);
    this.#lastOffsets.set(partition, covered);
    const own = this.#own.get(partition) ?? [];
    const kept = own.filter(({ offset }) => offset > covered);
    for (const { events } of own) this.#ownUsed -= events;
    for (const { events } of kept) this.#ownUsed += events;
    this.#own.set(partition, kept);
  }
}
