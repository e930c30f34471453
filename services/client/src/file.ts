/** Keeps the queue of a client in a file, so that queued events survive a crash of the process. */
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

const MAX_APPENDED_BYTES = 1_048_576;
/**
 * Minimum time between a failed attempt to rewrite the file and the next attempt. Without a minimum, each event would start an
 * attempt while the disk is full.
 */
const REWRITE_RETRY_MS = 5_000;

/**
 * Creates a queue in the file `path`, which only one process can use. `event()` returns after the event is written to the file,
 * without a flush to disk. Before a batch is sent, the idempotency key of the batch is flushed to disk.
 */
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
    // Closes the file before the rename, because Windows cannot replace an open file.
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
      // Ignores a partial last line, which a crash during a write can leave.
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
      // Rewrites the file if an earlier append failed, because a failed append can leave a partial line.
      if (file === undefined || appendedBytes > MAX_APPENDED_BYTES) {
        // Rewrites the file immediately after a removal or a new idempotency key. Otherwise, a restart could send duplicates.
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
