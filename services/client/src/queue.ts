/** The queue of a client. Its size is limited. The queue survives a restart of the game if it has a store. */

/** Stores the entries of a queue, so that they survive a restart. `write` applies all changes atomically and in their order. */
export interface QueueStore {
  /** Returns the entries that were stored before the restart, ordered by id. */
  open(): Promise<readonly StoredEntry[]>;
  write(changes: readonly QueueChange[]): void | Promise<void>;
  close(): void | Promise<void>;
}

export type StoredEntry = readonly [id: number, entry: QueueEntry];
/** The new content of the entry with this id. Null if the entry is removed. */
export type QueueChange = readonly [id: number, entry: QueueEntry | null];

export interface QueueEntry {
  readonly kind: 'session' | 'event' | 'report';
  readonly text: string;
  /** Idempotency key and number of events of a batch. Only the first event of the batch has this field. */
  readonly batch?: { readonly key: string; readonly count: number };
  readonly lost?: Lost;
}

export interface Lost {
  readonly dropped: number;
  readonly uncertain: number;
}

interface Batch {
  readonly key: string;
  readonly firstId: number;
  readonly count: number;
  /** True if the client does not know whether Questlog stored the batch. */
  mayBeStored: boolean;
}

export interface Item {
  readonly id: number;
  readonly kind: QueueEntry['kind'];
  text: string;
  bytes: number;
  batch?: Batch | undefined;
  lost?: Lost | undefined;
  /** Earliest retry time after a proxy has rejected the entry, in milliseconds of `performance.now()`. */
  notBeforeMs?: number | undefined;
  inFlight?: Promise<boolean> | undefined;
}

/** The entries of one request: one session, one report, or the events of one batch. */
export type Unit = readonly [Item, ...Item[]];

export class Queue {
  readonly #store: QueueStore | undefined;
  readonly #maxBytes: number;
  readonly #onFailure: (error: unknown) => void;
  #items: Item[] = [];
  #bytes = 0;
  #nextId = 1;
  #changes: QueueChange[] = [];
  #lastWrite: Promise<void> | undefined;
  readonly #storedIds: readonly number[];
  /** True if changes are written to the store. False until the player consents. */
  isPersistent = true;

  constructor(
    store: QueueStore | undefined,
    stored: readonly StoredEntry[],
    { maxBytes, onFailure }: { maxBytes: number; onFailure: (error: unknown) => void },
  ) {
    this.#store = store;
    this.#maxBytes = maxBytes;
    this.#onFailure = onFailure;
    this.#storedIds = stored.map(([id]) => id);
    let batch: Batch | undefined;
    let remainingInBatch = 0;
    for (const [id, { kind, text, lost, batch: storedBatch }] of stored) {
      if (storedBatch !== undefined) {
        batch = { ...storedBatch, firstId: id, mayBeStored: true };
        remainingInBatch = storedBatch.count;
      }
      this.#items.push({
        id,
        kind,
        text,
        bytes: sizeOf(text),
        lost,
        batch: remainingInBatch-- > 0 ? batch : undefined,
      });
      this.#bytes += sizeOf(text);
      this.#nextId = id + 1;
    }
  }

  get length(): number {
    return this.#items.length;
  }

  get bytes(): number {
    return this.#bytes;
  }

  get head(): Item | undefined {
    return this.#items[0];
  }

  get nextIndex(): number {
    const nowMs = performance.now();
    return this.#items.findIndex(({ notBeforeMs = 0 }) => notBeforeMs <= nowMs);
  }

  get lastId(): number {
    return this.#nextId - 1;
  }

  has(item: Item): boolean {
    return this.#items.includes(item);
  }

  /** Adds an entry. A full queue drops its oldest unsent events. @throws Error if a report does not fit into the queue. */
  add(kind: Item['kind'], text: string): { id: number; dropped: number } {
    const item: Item = { id: this.#nextId++, kind, text, bytes: sizeOf(text) };
    const availableBytes = this.#maxBytes - item.bytes;
    const dropped: Item[] = [];
    let bytes = this.#bytes;
    for (const queued of this.#items) {
      if (bytes <= availableBytes) break;
      if (queued.kind !== 'event' || queued.batch || queued.lost) continue;
      dropped.push(queued);
      bytes -= queued.bytes;
    }
    const isTooLarge = bytes > availableBytes && kind !== 'session';
    if (isTooLarge && kind === 'report') throw new Error('the queue is full: the report was not added');
    // Drops the new event, because the event does not fit into the queue even if all older unsent events are dropped.
    if (isTooLarge) return { id: item.id, dropped: 1 };
    for (const queued of dropped) this.remove([queued]);
    this.#push(item);
    return { id: item.id, dropped: dropped.length };
  }

  /** Adds a number of lost events to the unsent event `questlog_lost`. Creates the event if the queue does not contain it. */
  countLost(kind: keyof Lost, events: number, createText: (lost: Lost) => string): void {
    const item = this.#items.find(({ lost, batch }) => lost !== undefined && batch === undefined);
    const before = item?.lost ?? { dropped: 0, uncertain: 0 };
    const lost = { ...before, [kind]: before[kind] + events };
    if (item === undefined) {
      const text = createText(lost);
      this.#push({ id: this.#nextId++, kind: 'event', text, bytes: sizeOf(text), lost });
      return;
    }
    this.#bytes -= item.bytes;
    item.text = JSON.stringify({ ...JSON.parse(item.text), payload: lost });
    item.bytes = sizeOf(item.text);
    item.lost = lost;
    this.#bytes += item.bytes;
    this.#recordChange(item);
  }

  /**
   * Returns the entries for one request, beginning at this index. A batch with an idempotency key stays unchanged, because a
   * retry must repeat its events.
   */
  unitAt(at: number, limits: { events: number; bytes: number }): Unit | undefined {
    const head = this.#items[at];
    if (head === undefined || head.kind !== 'event') return head && [head];
    if (head.batch !== undefined) return [head, ...this.#items.slice(at + 1, at + head.batch.count)];
    const unit: [Item, ...Item[]] = [head];
    let bytes = head.bytes + 2;
    for (const item of this.#items.slice(at + 1, at + limits.events)) {
      bytes += item.bytes + 1;
      if (item.kind !== 'event' || item.batch !== undefined || bytes > limits.bytes) break;
      unit.push(item);
    }
    return unit;
  }

  /** Assigns an idempotency key to a batch. The caller must call `persist()` before it sends the batch. */
  assignKey(unit: Unit, key: string): Batch {
    const batch: Batch = { key, firstId: unit[0].id, count: unit.length, mayBeStored: false };
    for (const item of unit) item.batch = batch;
    this.#recordChange(unit[0]);
    return batch;
  }

  removeKey(unit: Unit): void {
    for (const item of unit) item.batch = undefined;
    this.#recordChange(unit[0]);
  }

  remove(unit: readonly Item[]): void {
    const [head] = unit;
    if (head === undefined) return;
    for (const { id, bytes } of this.#items.splice(this.#items.indexOf(head), unit.length)) {
      this.#bytes -= bytes;
      this.#changes.push([id, null]);
    }
  }

  clear(): void {
    this.remove(this.#items);
    this.#changes.unshift(...this.#storedIds.map((id): QueueChange => [id, null]));
    const { isPersistent } = this;
    this.isPersistent = true;
    void this.persist();
    this.isPersistent = isPersistent;
  }

  /** Writes the changes to the store in order. If a write fails, reports the failure and keeps the changes in memory. */
  persist(isAll = false): Promise<void> | undefined {
    if (isAll) {
      const current = this.#items.map((item): QueueChange => [item.id, entryOf(item)]);
      this.#changes = [...this.#storedIds.map((id): QueueChange => [id, null]), ...current];
    }
    const changes = this.#changes;
    this.#changes = [];
    if (this.#store === undefined || changes.length === 0 || !this.isPersistent) return this.#lastWrite;
    try {
      this.#lastWrite = this.#store.write(changes)?.catch(this.#onFailure);
    } catch (error) {
      this.#onFailure(error);
    }
    return this.#lastWrite;
  }

  async close(): Promise<void> {
    await this.#lastWrite;
    await this.#store?.close();
  }

  #push(item: Item): void {
    this.#items.push(item);
    this.#bytes += item.bytes;
    this.#recordChange(item);
  }

  #recordChange(item: Item): void {
    this.#changes.push([item.id, entryOf(item)]);
  }
}

function entryOf({ id, kind, text, batch, lost }: Item): QueueEntry {
  const batchFields = batch?.firstId === id && { batch: { key: batch.key, count: batch.count } };
  return { kind, text, ...batchFields, ...(lost && { lost }) };
}

export function sizeOf(text: string): number {
  return new TextEncoder().encode(text).length;
}
