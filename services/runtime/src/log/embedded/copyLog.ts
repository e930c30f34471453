/** Copies the log's file while it goes on: for a backup that also copies what consumers make of the log. */
import { type FileHandle, open } from 'node:fs/promises';
import { backup, DatabaseSync } from 'node:sqlite';
import { setTimeout as delay } from 'node:timers/promises';
import { MAX_OFFSET } from './topicCatalog.ts';

export interface LogCopy {
  /** The file, which is made. */
  readonly path: string;
  /**
   * Of these groups the copy has the commits of before `first`, of all others those that go with its records. Without what
   * they say beside the offset: that tells of tables which the copy's will not be.
   */
  readonly groups: readonly string[];
  /** Awaited once those commits are noted, before anything is copied. */
  beforeCopy(): Promise<void>;
  /** Of compacted topics: what the copy is to have no record of. */
  readonly excluded: readonly { readonly topic: string; readonly key: string }[];
  readonly signal: AbortSignal;
}

/** Of 8 KiB: appends wait for a step of so many; for the last until the whole copy is on the disk. */
const PAGES_PER_STEP = 100;

/** Nothing may delete records meanwhile: they might be behind the commits of before. */
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
    // One file, without a write-ahead log beside it.
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

/** A step that meets a write of the log is made again; the first one Node gives up, with an error that says "not an error". */
async function backupWhenUnlocked(sqlite: DatabaseSync, to: string, onStep: () => void): Promise<void> {
  let hasStarted = false;
  const progress = (): void => {
    hasStarted = true;
    onStep();
  };
  for (let attempt = 1; ; attempt += 1) {
    try {
      await backup(sqlite, to, { rate: PAGES_PER_STEP, progress });
      return;
    } catch (error) {
      const isLocked = error instanceof Error && 'errcode' in error && error.errcode === SQLITE_OK;
      if (hasStarted || !isLocked || attempt === MAX_ATTEMPTS) throw error;
      await delay(PAUSE_MS);
    }
  }
}

const SQLITE_OK = 0;
/** A write takes milliseconds. */
const PAUSE_MS = 20;
const MAX_ATTEMPTS = 250;

/** Brings what is written of a file to the disk all the time, so that little of it is left for the end. */
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

  /** Not while SQLite has the file: a process that closes any handle of a file loses its locks of it. */
  async close(): Promise<void> {
    await this.#running;
    await this.#file?.close();
  }

  /** What fails here fails again at the end, where SQLite says it. */
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
