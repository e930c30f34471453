/** Copies the file of the embedded log for a backup while the log is in use. */
import { type FileHandle, open } from 'node:fs/promises';
import { backup, DatabaseSync } from 'node:sqlite';
import { Backoff, retry } from '../../process/waiting.ts';
import { MAX_OFFSET } from './topicCatalog.ts';

export interface LogCopy {
  readonly path: string;
  /** The copy contains the committed offsets of these consumer groups, without metadata. */
  readonly groups: readonly string[];
  /** Function that runs after the committed offsets of `groups` were read and before the records are copied. */
  beforeCopy(): Promise<void>;
  /** Keys to leave out of the copy, each with the compacted topic that contains the key. */
  readonly excluded: readonly { readonly topic: string; readonly key: string }[];
  readonly signal: AbortSignal;
}

/** Number of 8 KiB pages in each step of the copy. Appends wait during each step and during the final flush to disk. */
const PAGES_PER_STEP = 100;

/**
 * Copies the log's file. The caller must stop retention until the copy is complete. Otherwise, retention could delete records
 * that a group needs after a restore.
 */
export async function copyLog(sqlite: DatabaseSync, copy: LogCopy): Promise<void> {
  const earlierCommits = sqlite
    .prepare("SELECT partition_id, consumer_group, next_offset, '' AS metadata FROM commits")
    .all()
    .filter((row) => copy.groups.includes(String(row['consumer_group'])));
  await copy.beforeCopy();
  const flusher = new FileFlusher(copy.path);
  try {
    await backupWhenUnlocked(sqlite, copy.path, () => {
      copy.signal.throwIfAborted();
      flusher.flush();
    });
  } finally {
    await flusher.close();
  }
  const copied = new DatabaseSync(copy.path);
  try {
    // The journal mode DELETE removes the write-ahead log of the copy, so that the copy is one file.
    copied.exec('PRAGMA secure_delete = ON; PRAGMA journal_mode = DELETE; BEGIN');
    const deleteCommits = copied.prepare('DELETE FROM commits WHERE consumer_group = ?');
    const commit = copied.prepare('INSERT INTO commits VALUES (?, ?, ?, ?)');
    for (const group of copy.groups) deleteCommits.run(group);
    for (const row of earlierCommits) commit.run(...Object.values(row));
    for (const { topic, key } of copy.excluded) deleteRecords(copied, topic, key);
    copied.exec('COMMIT');
  } finally {
    copied.close();
  }
}

/** Retries the copy if a lock prevents the first step. Node reports the lock with the message "not an error". */
async function backupWhenUnlocked(sqlite: DatabaseSync, to: string, onStep: () => void): Promise<void> {
  let hasStarted = false;
  const progress = (): void => {
    hasStarted = true;
    onStep();
  };
  let attempts = 0;
  await retry(() => backup(sqlite, to, { rate: PAGES_PER_STEP, progress }), {
    backoff: new Backoff(PAUSE_MS, PAUSE_MS),
    isRetryable: (error) =>
      !hasStarted && Reflect.get(error, 'errcode') === SQLITE_OK && ++attempts < MAX_ATTEMPTS,
  });
}

const SQLITE_OK = 0;
const PAUSE_MS = 20;
const MAX_ATTEMPTS = 250;

/** Flushes the file continuously during the copy, so that the final flush is short. */
class FileFlusher {
  readonly #path: string;
  #file: FileHandle | undefined;
  #running: Promise<void> | undefined;

  constructor(path: string) {
    this.#path = path;
  }

  flush(): void {
    this.#running ??= this.#flush().finally(() => {
      this.#running = undefined;
    });
  }

  /**
   * Must be called after SQLite has closed the copy. Closing a descriptor of a file releases all locks of the process on this
   * file (POSIX), including SQLite's locks.
   */
  async close(): Promise<void> {
    await this.#running;
    await this.#file?.close();
  }

  /** Ignores flush errors, because SQLite reports disk errors at the end of the copy. */
  async #flush(): Promise<void> {
    try {
      this.#file ??= await open(this.#path, 'r+');
      await this.#file.datasync();
    } catch {}
  }
}

function deleteRecords(copied: DatabaseSync, topic: string, key: string): void {
  for (const row of copied.prepare('SELECT id FROM partitions WHERE topic = ?').all(topic)) {
    const id = Number(row['id']);
    const records = copied.prepare('DELETE FROM records WHERE id >= ? AND id < ? AND key = ?');
    records.run(id * MAX_OFFSET, (id + 1) * MAX_OFFSET, key);
    copied.prepare('DELETE FROM latest_by_key WHERE partition_id = ? AND key = ?').run(id, key);
  }
}
