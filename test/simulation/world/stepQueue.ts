/** Queue of future steps, ordered by time and then by insertion. */

interface Entry<T> {
  readonly atMs: number;
  readonly number: number;
  readonly item: T;
  isTakenBack: boolean;
}

export class StepQueue<T> {
  /** Binary heap. */
  readonly #heap: Entry<T>[] = [];
  #added = 0;

  /** Returns a function that removes the item. */
  add(atMs: number, item: T): () => void {
    const entry = { atMs, number: this.#added++, item, isTakenBack: false };
    const heap = this.#heap;
    let at = heap.push(entry) - 1;
    for (let above = (at - 1) >> 1; at > 0 && isBefore(entry, heap[above]); above = (at - 1) >> 1) {
      heap[at] = heap[above] as Entry<T>;
      at = above;
    }
    heap[at] = entry;
    return () => {
      entry.isTakenBack = true;
    };
  }

  /** Removes and returns the next item that is due at or before the time. */
  takeBefore(untilMs: number): { readonly atMs: number; readonly item: T } | undefined {
    for (;;) {
      const [first] = this.#heap;
      if (first === undefined || first.atMs > untilMs) return undefined;
      this.#removeFirst();
      if (!first.isTakenBack) return first;
    }
  }

  #removeFirst(): void {
    const heap = this.#heap;
    const last = heap.pop();
    if (last === undefined || heap.length === 0) return;
    let at = 0;
    for (;;) {
      let below = 2 * at + 1;
      if (isBefore(heap[below + 1], heap[below])) below++;
      if (!isBefore(heap[below], last)) break;
      heap[at] = heap[below] as Entry<T>;
      at = below;
    }
    heap[at] = last;
  }
}

function isBefore<T>(a: Entry<T> | undefined, b: Entry<T> | undefined): boolean {
  if (a === undefined || b === undefined) return a !== undefined;
  return a.atMs < b.atMs || (a.atMs === b.atMs && a.number < b.number);
}
