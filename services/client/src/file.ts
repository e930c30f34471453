/** Keeps a client's queue in a file, so that what a game has noted outlives the process, however that ends. */
import {
  appendFileSync,
  closeSync,
  existsSync,
  fsyncSync,
  openSync,
  readFileSync,
  renameSync,
} from 'node:fs';
import type { QueueChange, QueueEntry, QueueStore } from './queue.ts';

/** The file is written anew once it holds this much more than the queue did then. */
const REWRITTEN_AFTER_BYTES = 1_048_576;

/** One process a file. An event is in it when `event()` returns; the key of a batch is on the disk before it is used. */
export function fileQueue(path: string): QueueStore {
  const entries = new Map<number, QueueEntry>();
  let file: number | undefined;
  let grownBytes = 0;

  const apply = (changes: readonly QueueChange[]): void => {
    for (const [id, entry] of changes) {
      if (entry === null) entries.delete(id);
      else entries.set(id, entry);
    }
  };
  const rewrite = (): void => {
    const whole = openSync(`${path}.new`, 'w', 0o600);
    appendFileSync(whole, `${JSON.stringify([...entries])}\n`);
    fsyncSync(whole);
    renameSync(`${path}.new`, path);
    if (file !== undefined) closeSync(file);
    file = whole;
    grownBytes = 0;
  };
  return {
    open: async () => {
      const lines = existsSync(path) ? readFileSync(path, 'utf8').split('\n') : [];
      // A process that ended within a write leaves half a line, which nobody was told of.
      for (const line of lines.slice(0, -1)) apply(JSON.parse(line));
      rewrite();
      return [...entries].sort(([one], [other]) => one - other);
    },
    write: (changes) => {
      if (file === undefined) return;
      apply(changes);
      const line = `${JSON.stringify(changes)}\n`;
      grownBytes += line.length;
      // Also after a write that failed, of which half a line may be there.
      if (grownBytes > REWRITTEN_AFTER_BYTES) return rewrite();
      try {
        appendFileSync(file, line);
        if (changes.some(([, entry]) => entry?.batch !== undefined)) fsyncSync(file);
      } catch (error) {
        grownBytes = Number.POSITIVE_INFINITY;
        throw error;
      }
    },
    close: () => {
      if (file !== undefined) closeSync(file);
      file = undefined;
    },
  };
}
