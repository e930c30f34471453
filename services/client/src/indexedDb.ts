/** Keeps the queue of a client in IndexedDB, so that queued events survive when the page or the browser closes. */
import type { QueueEntry, QueueStore } from './queue.ts';

interface DatabaseRequest<T> {
  readonly result: T;
  readonly error: unknown;
  onsuccess: (() => void) | null;
  onerror: (() => void) | null;
  onupgradeneeded?: (() => void) | null;
}
interface ObjectStore {
  getAll(): DatabaseRequest<QueueEntry[]>;
  getAllKeys(): DatabaseRequest<Key[]>;
  put(entry: QueueEntry, key: Key): void;
  delete(key: Key): void;
}
interface Transaction {
  readonly error: unknown;
  objectStore(name: string): ObjectStore;
  commit(): void;
  oncomplete: (() => void) | null;
  onabort: (() => void) | null;
}
interface Database {
  createObjectStore(name: string): unknown;
  transaction(name: string, mode: string, options: { durability: string }): Transaction;
  close(): void;
}
interface Locks {
  request(name: string, waitForRelease: () => Promise<unknown>): Promise<unknown>;
  query(): Promise<{ held: { name: string }[] }>;
}
type Key = [tab: string, id: number];

/**
 * Creates a queue with separate entries for each browser tab. A new tab takes over the entries of closed tabs. The queue needs
 * Web Locks to recognize open tabs. Browsers provide Web Locks only on https and localhost.
 */
export function indexedDbQueue(name = 'questlog'): QueueStore {
  const tab = Array.from(crypto.getRandomValues(new Uint32Array(4)), (word) => word.toString(36)).join('');
  const closed = new AbortController();
  let database: Database | undefined;

  const change = (run: (entries: ObjectStore, transaction: Transaction) => void): Promise<void> =>
    new Promise((resolve, reject) => {
      if (database === undefined) return resolve();
      const transaction = database.transaction('entries', 'readwrite', { durability: 'relaxed' });
      transaction.oncomplete = () => resolve();
      transaction.onabort = () => reject(transaction.error);
      run(transaction.objectStore('entries'), transaction);
    });
  return {
    open: async () => {
      const { indexedDB, navigator } = globalThis as {
        indexedDB?: { open(name: string, version: number): DatabaseRequest<Database> };
        navigator?: { locks?: Locks };
      };
      const locks = navigator?.locks;
      if (indexedDB === undefined || locks === undefined)
        throw new Error('there is no IndexedDB or no Web Locks');
      await acquireLock(locks, lockName(name, tab), closed.signal);
      const stored: [number, QueueEntry][] = [];
      await locks.request(name, async () => {
        const { held } = await locks.query();
        const live = new Set(held.map((lock) => lock.name));
        database = await openedDatabase(indexedDB.open(name, 1));
        await change((entries) => {
          const keys = entries.getAllKeys();
          const values = entries.getAll();
          values.onsuccess = () => {
            for (const [n, [owner, id]] of keys.result.entries()) {
              const entry = values.result[n];
              if (entry === undefined || live.has(lockName(name, owner))) continue;
              entries.delete([owner, id]);
              entries.put(entry, [tab, stored.length + 1]);
              stored.push([stored.length + 1, entry]);
            }
          };
        });
      });
      return stored;
    },
    write: (changes) =>
      change((entries, transaction) => {
        for (const [id, entry] of changes) {
          if (entry === null) entries.delete([tab, id]);
          else entries.put(entry, [tab, id]);
        }
        // Commits the transaction explicitly. Otherwise, the browser aborts an open transaction when the page closes.
        transaction.commit();
      }),
    close: () => {
      database?.close();
      database = undefined;
      closed.abort();
    },
  };
}

function lockName(name: string, tab: string): string {
  return `${name} ${tab}`;
}

function acquireLock(locks: Locks, name: string, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const waitForRelease = (): Promise<void> =>
      new Promise((release) => {
        signal.addEventListener('abort', () => release());
        resolve();
      });
    locks.request(name, waitForRelease).catch(reject);
  });
}

function openedDatabase(request: DatabaseRequest<Database>): Promise<Database> {
  return new Promise((resolve, reject) => {
    request.onupgradeneeded = () => void request.result.createObjectStore('entries');
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
}
