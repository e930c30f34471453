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
const MAX_APPENDED_BYTES = 1_048_576;
/** A full disk is not tried again with each event: a game would stutter. */
const REWRITE_RETRY_MS = 5_000;

/** One process a file. An event is in it when `event()` returns; the key of a batch is on the disk before it is used. */
export function fileQueue(path: string): QueueStore {
  const entries = new Map<number, QueueEntry>();
  let file: number | undefined;
  let appendedBytes = 0;
  let isOpen = false;
  let lastFailure: { readonly error: unknown; readonly ms: number } | undefined;

  const apply = (changes: readonly QueueChange[]): void => {
    for (const [id, entry] of changes) {
      if (entry === null) entries.delete(id);
      else entries.set(id, entry);
    }
  };
  const close = (): void => {
    if (file !== undefined) closeSync(file);
    file = undefined;
  };
  const rewrite = (): void => {
    const newFile = openSync(`${path}.new`, 'w', 0o600);
    try {
      appendFileSync(newFile, `${JSON.stringify([...entries])}\n`);
      fsyncSync(newFile);
    } finally {
      closeSync(newFile);
    }
    // Windows renames no file that is open.
    close();
    renameSync(`${path}.new`, path);
    file = openSync(path, 'a');
    appendedBytes = 0;
  };
  const rewriteUnlessFailing = (mustTry: boolean): void => {
    const nowMs = performance.now();
    if (!mustTry && lastFailure !== undefined && nowMs - lastFailure.ms < REWRITE_RETRY_MS)
      throw lastFailure.error;
    try {
      rewrite();
      lastFailure = undefined;
    } catch (error) {
      lastFailure = { error, ms: nowMs };
      throw error;
    }
  };
  return {
    open: async () => {
      const lines = existsSync(path) ? readFileSync(path, 'utf8').split('\n') : [];
      // A process that ended within a write leaves half a line, which nobody was told of.
      for (const line of lines.slice(0, -1)) apply(JSON.parse(line));
      rewrite();
      isOpen = true;
      return [...entries].sort(([one], [other]) => one - other);
    },
    write: (changes) => {
      if (!isOpen) return;
      apply(changes);
      const line = `${JSON.stringify(changes)}\n`;
      appendedBytes += line.length;
      // Also after a write that failed, of which half a line may be there.
      if (file === undefined || appendedBytes > MAX_APPENDED_BYTES) {
        // Without a batch's key, or an entry's end, the next start would send again what is stored.
        return rewriteUnlessFailing(changes.some(([, entry]) => entry === null || entry.batch !== undefined));
      }
      try {
        appendFileSync(file, line);
        if (changes.some(([, entry]) => entry?.batch !== undefined)) fsyncSync(file);
      } catch (error) {
        appendedBytes = Number.POSITIVE_INFINITY;
        throw error;
      }
    },
    close: () => {
      isOpen = false;
      close();
    },
  };
}
