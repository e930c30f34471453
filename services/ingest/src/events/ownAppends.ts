/**
 * Keeps the latest appends of this process. Detects truncations of the log, and finds the appends that a truncation removed.
 */

export interface OwnAppend {
  readonly appendId: string;
  readonly events: number;
  readonly receivedAt: number;
}

/** Maximum number of appends in memory, which take about 4 MB. */
const MAX_APPENDS = 65_536;
const ID_BYTES = 36;
const REMOVED = 2 ** 32 - 1;

/** Keeps appends with their offsets. The log was truncated if a new append gets a lower offset than an earlier append. */
export class OwnAppends {
  /** For each partition, the offset after the latest append of this process. */
  readonly #ends: number[] = [];
  readonly #onTruncated: (partition: number, offset: number, lost: readonly OwnAppend[]) => void;
  /**
   * The ids of the appends, as a ring buffer. All ring buffers are allocated at the start, so that an append creates no object.
   */
  readonly #ids: Buffer;
  readonly #partitions: Uint32Array;
  readonly #offsets: Float64Array;
  readonly #events: Uint32Array;
  readonly #times: Float64Array;
  #next = 0;

  constructor(
    onTruncated: (partition: number, offset: number, lost: readonly OwnAppend[]) => void,
    capacity = MAX_APPENDS,
  ) {
    this.#onTruncated = onTruncated;
    this.#ids = Buffer.alloc(capacity * ID_BYTES);
    this.#partitions = new Uint32Array(capacity).fill(REMOVED);
    this.#offsets = new Float64Array(capacity);
    this.#events = new Uint32Array(capacity);
    this.#times = new Float64Array(capacity);
  }

  get ends(): readonly (number | undefined)[] {
    return this.#ends;
  }

  /** Adds appends that the broker has confirmed. The caller must add the appends in the order of their offsets. */
  confirmed(partition: number, baseOffset: number, appends: readonly OwnAppend[]): void {
    this.setEnd(partition, baseOffset);
    let offset = baseOffset;
    for (const append of appends) this.#add(partition, offset++, append);
    this.#ends[partition] = offset;
  }

  /** Compares an end offset of the log with the latest append. A lower end offset means that the log was truncated. */
  setEnd(partition: number, offset: number): void {
    if (offset >= (this.#ends[partition] ?? 0)) return;
    this.#ends[partition] = offset;
    this.#onTruncated(partition, offset, this.#removeFrom(partition, offset));
  }

  #add(partition: number, offset: number, { appendId, events, receivedAt }: OwnAppend): void {
    const at = this.#next;
    this.#ids.write(appendId, at * ID_BYTES, 'latin1');
    this.#partitions[at] = partition;
    this.#offsets[at] = offset;
    this.#events[at] = events;
    this.#times[at] = receivedAt;
    this.#next = (at + 1) % this.#offsets.length;
  }

  /** Removes and returns the appends at or after the offset `from`, because the log reuses these offsets after a truncation. */
  #removeFrom(partition: number, from: number): OwnAppend[] {
    const removed: OwnAppend[] = [];
    for (const [at, offset] of this.#offsets.entries()) {
      if (this.#partitions[at] !== partition || offset < from) continue;
      this.#partitions[at] = REMOVED;
      removed.push({
        appendId: this.#ids.toString('latin1', at * ID_BYTES, (at + 1) * ID_BYTES),
        events: this.#events[at] ?? 0,
        receivedAt: this.#times[at] ?? 0,
      });
    }
    return removed;
  }
}
