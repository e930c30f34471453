/** A queue store in memory. Tests can inspect the entries of the store. */
import type { QueueChange, QueueEntry, QueueStore } from '../client.ts';

export function memoryStore(entries = new Map<number, QueueEntry>()) {
  const store: QueueStore & { entries: Map<number, QueueEntry>; isClosed: boolean } = {
    entries: new Map(entries),
    isClosed: false,
    open: () => Promise.resolve([...store.entries]),
    write: (changes: readonly QueueChange[]) => {
      for (const [id, entry] of changes) {
        if (entry === null) store.entries.delete(id);
        else store.entries.set(id, entry);
      }
    },
    close: () => {
      store.isClosed = true;
    },
  };
  return store;
}
