/**
 * This process's own appends of events: where they end, by which a cut of the log is noticed, and the last of them, of which
 * nobody else knows what a cut has taken before it was projected.
 */

export interface OwnAppend {
  readonly appendId: string;
  readonly events: number;
  /** Milliseconds since the epoch. */
  readonly receivedAt: number;
}

/** Minutes of a busy ingest, in 4 MB. A projection that is further behind leaves older ones uncounted. */
const MAX_APPENDS = 65_536;
const ID_BYTES = 36;
/** Stands for the partition of what was taken out. */
const REMOVED = 2 ** 32 - 1;

/** An append that comes to lie before another tells that the log was cut. */
export class OwnAppends {
  /** Per partition, the offset behind the last. */
  readonly #ends: number[] = [];
  readonly #onTruncated: (partition: number, offset: number, lost: readonly OwnAppend[]) => void;
  /** Packed, the oldest overwritten first: an append costs five numbers and no object. */
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

  /** Called in the order of the appends. */
  confirmed(partition: number, baseOffset: number, appends: readonly OwnAppend[]): void {
    this.setEnd(partition, baseOffset);
    let offset = baseOffset;
    for (const append of appends) this.#add(partition, offset++, append);
    this.#ends[partition] = offset;
  }

  /** The log ends, or ended a moment ago, at the offset. */
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

  /** Others get their offsets now. */
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
