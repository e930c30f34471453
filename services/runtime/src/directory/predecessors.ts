/**
 * Which records of the directory count. A change is decided on what its process has read, so its record names, in a
 * header, the record that made what it was decided on. Where another one that counts lies between the two it was decided
 * on what was no longer true: it counts for nobody, and its process decides again. Of those that change one entity at
 * the same time one is always through. A record without the header counts always.
 *
 * Compaction keeps the last record of a key and all that are younger. So the first one that a reader meets counts
 * unseen; whether it did is told by what follows: a record between what it names and itself can only have been named
 * where it did not.
 */
import type { Headers, LogRecord } from '../log/log.ts';

/** The offset of the last record of the same key that counts; empty where there is none. */
export const FOLLOWS_HEADER = 'questlog-follows';

interface Position {
  readonly offset: number;
  /** The lowest offset that a record must name to count. */
  readonly floor: number;
}

export class Predecessors {
  /** Of each key that has an entity, its last record that counts. */
  readonly #last = new Map<string, Position>();

  /** The headers of a record that is decided on what was read so far. */
  headersFor(key: string): Headers {
    return { [FOLLOWS_HEADER]: String(this.#last.get(key)?.offset ?? '') };
  }

  /** Takes each record of the topic, in order. False: it does not count. */
  accept({ key, value, offset, headers }: Omit<LogRecord, 'timestampMs'>): boolean {
    if (key === null) return true;
    if (value === null) {
      // A tombstone is the end of its key, which is never used again.
      this.#last.delete(key);
      return true;
    }
    const last = this.#last.get(key);
    const follows = offsetIn(headers[FOLLOWS_HEADER]);
    if (last !== undefined && follows !== undefined && follows < last.floor) return false;
    const floor = last === undefined && follows !== undefined ? follows + 1 : offset;
    this.#last.set(key, { offset, floor });
    return true;
  }
}

function offsetIn(header: string | undefined): number | undefined {
  if (header === undefined) return undefined;
  return header === '' ? -1 : Number(header);
}
