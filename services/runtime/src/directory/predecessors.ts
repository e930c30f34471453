/**
 * Which records of the directory count. A change is decided on what its process has read, so its record names, in a
 * header, the record of the same key that it follows. Where another one lies between the two it was decided on what was
 * no longer true: it counts for nobody, and its process decides again. A record without the header counts always.
 *
 * Compaction keeps the last record of a key and all that are younger, so the first one that a reader meets counts
 * unseen: at worst it is one that did not, and what follows it names it all the same.
 */
import type { Headers, LogRecord } from '../log/log.ts';

/** The offset of the record before, of the same key; empty where there is none. */
export const FOLLOWS_HEADER = 'questlog-follows';

export class Predecessors {
  /** Of each key that has an entity, the offset of its last record, whether that counts or not. */
  readonly #last = new Map<string, number>();

  /** The headers of a record that is decided on what was read so far. */
  headersFor(key: string): Headers {
    return { [FOLLOWS_HEADER]: String(this.#last.get(key) ?? '') };
  }

  /** Takes each record of the topic, in order. False: it does not count. */
  accept({ key, value, offset, headers }: Omit<LogRecord, 'timestampMs'>): boolean {
    if (key === null) return true;
    const last = this.#last.get(key);
    // A tombstone is the end of its key, which is never used again.
    if (value === null) this.#last.delete(key);
    else this.#last.set(key, offset);
    const follows = headers[FOLLOWS_HEADER];
    return value === null || last === undefined || follows === undefined || follows === String(last);
  }
}
