/** Opens the SQLite file of the embedded log with an exclusive lock, and converts disk errors to `Unavailable`. */
import { randomUUID } from 'node:crypto';
import { closeSync, mkdirSync, openSync, read, readSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { promisify } from 'node:util';
import { messageOf, StartRefused, Unavailable } from '../../process/errors.ts';

export interface LogDatabase {
  readonly logId: string;
  readonly sqlite: DatabaseSync;
  /** Runs `work` in one durable transaction. A disk error rolls the transaction back and throws `Unavailable`. */
  write<T>(work: () => T): T;
  /** Runs `work`, which must not write. A disk error throws `Unavailable`. */
  read<T>(work: () => T): T;
  readonly pageBytes: number;
  /** True if SQLite can remove free pages from the file. Files from an older Questlog version first need `questlog compact`. */
  readonly returnsSpace: boolean;
  /** Moves the content of the write-ahead log into the main file. Returns false if a reader prevents the move. */
  emptyWal(): boolean;
  clearPageCache(): void;
  /**
   * Returns the descriptor of the log's file. Do not open a second descriptor of this file, because closing it would release
   * SQLite's locks (POSIX).
   */
  file(): number;
  readFile(into: Buffer, position: number): Promise<number>;
  readFileSync(into: Buffer, position: number): number;
  close(): void;
}

/** Opens or creates the log's file. @throws StartRefused if another process uses the file or the file is unusable. */
export function openDatabase(directory: string): LogDatabase {
  const sqlite = openLocked(directory);
  try {
    const logId = readOrCreateId(sqlite, directory);
    return { logId, sqlite, ...transactionsOf(sqlite), ...fileAccessOf(sqlite, join(directory, FILE_NAME)) };
  } catch (error) {
    sqlite.close();
    if (error instanceof StartRefused) throw error;
    throw new StartRefused(`the log in ${directory} cannot be opened: ${messageOf(error)}`, { cause: error });
  }
}

export const FILE_NAME = 'questlog.db';
const FORMAT_VERSION = 1;

/** Pages of 8 KiB are 25 % faster than pages of 4 KiB for records of 2 to 10 KB, and equally fast for small records. */
const PAGE_BYTES = 8192;

/** Number of pages in the write-ahead log at which SQLite starts a checkpoint. A checkpoint of 8 MB takes less than 10 ms. */
const CHECKPOINT_PAGES = 1000;

/** After a burst of writes, SQLite truncates the file of the write-ahead log to this size. */
const MAX_IDLE_WAL_BYTES = 64 * 1024 * 1024;

const SCHEMA = `
  CREATE TABLE log (id TEXT NOT NULL) STRICT;
  CREATE TABLE topics (
    name TEXT PRIMARY KEY, policy TEXT NOT NULL, retention_ms INTEGER, max_record_bytes INTEGER NOT NULL
  ) STRICT, WITHOUT ROWID;
  CREATE TABLE partitions (
    id INTEGER PRIMARY KEY, topic TEXT NOT NULL, number INTEGER NOT NULL,
    start_offset INTEGER NOT NULL, end_offset INTEGER NOT NULL, compacted_offset INTEGER NOT NULL
  ) STRICT;
  CREATE TABLE records (
    id INTEGER PRIMARY KEY, timestamp_ms INTEGER NOT NULL, key TEXT, value BLOB, headers TEXT
  ) STRICT;
  CREATE TABLE commits (
    partition_id INTEGER NOT NULL, consumer_group TEXT NOT NULL, next_offset INTEGER NOT NULL, metadata TEXT NOT NULL,
    PRIMARY KEY (partition_id, consumer_group)
  ) STRICT, WITHOUT ROWID;
  CREATE TABLE latest_by_key (
    partition_id INTEGER NOT NULL, key TEXT NOT NULL, record_offset INTEGER NOT NULL, tombstone_since_ms INTEGER,
    PRIMARY KEY (partition_id, key)
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX tombstones ON latest_by_key (partition_id, tombstone_since_ms)
    WHERE tombstone_since_ms IS NOT NULL;
  PRAGMA user_version = ${FORMAT_VERSION};
`;

/** `secure_delete` is ON because the mode FAST does not overwrite free pages. */
function openLocked(directory: string): DatabaseSync {
  let sqlite: DatabaseSync | undefined;
  try {
    mkdirSync(directory, { recursive: true });
    sqlite = new DatabaseSync(join(directory, FILE_NAME), { timeout: 0 });
    // The kernel releases the exclusive lock when the process ends, even after a crash.
    sqlite.exec(`
      PRAGMA page_size = ${PAGE_BYTES};
      PRAGMA auto_vacuum = INCREMENTAL;
      PRAGMA locking_mode = EXCLUSIVE;
      PRAGMA journal_mode = WAL;
      PRAGMA synchronous = FULL;
      PRAGMA secure_delete = ON;
      PRAGMA wal_autocheckpoint = ${CHECKPOINT_PAGES};
      PRAGMA journal_size_limit = ${MAX_IDLE_WAL_BYTES};
      BEGIN IMMEDIATE; COMMIT;
    `);
    return sqlite;
  } catch (error) {
    sqlite?.close();
    const reason = isBusy(error) ? 'is in use by another process' : `cannot be used: ${messageOf(error)}`;
    throw new StartRefused(`the log directory ${directory} ${reason}`, { cause: error });
  }
}

function readOrCreateId(sqlite: DatabaseSync, directory: string): string {
  const version = sqlite.prepare('PRAGMA user_version').get()?.['user_version'];
  if (version === 0) {
    sqlite.exec(`BEGIN IMMEDIATE; ${SCHEMA} INSERT INTO log (id) VALUES ('${randomUUID()}'); COMMIT;`);
  } else if (version !== FORMAT_VERSION) {
    throw new StartRefused(
      `the log in ${directory} has format ${version}; this version reads ${FORMAT_VERSION}`,
    );
  }
  return String(sqlite.prepare('SELECT id FROM log').get()?.['id']);
}

function transactionsOf(sqlite: DatabaseSync): Pick<LogDatabase, 'write' | 'read'> {
  const begin = sqlite.prepare('BEGIN IMMEDIATE');
  const commit = sqlite.prepare('COMMIT');
  const rollback = sqlite.prepare('ROLLBACK');
  return {
    write(work) {
      let outcome = 'nothing was written';
      try {
        begin.run();
        const result = work();
        // If COMMIT fails and the process then crashes, the transaction can still take effect, so the outcome is unknown.
        outcome = 'whether it was written is unknown';
        commit.run();
        return result;
      } catch (error) {
        if (sqlite.isTransaction) rollback.run();
        throw toDiskError(error, outcome);
      }
    },
    read(work) {
      try {
        return work();
      } catch (error) {
        throw toDiskError(error, 'nothing was read');
      }
    },
  };
}

const INCREMENTAL = 2;
const readAsync = promisify(read);

function fileAccessOf(
  sqlite: DatabaseSync,
  path: string,
): Omit<LogDatabase, 'logId' | 'sqlite' | 'write' | 'read'> {
  const number = (pragma: string): number => Number(sqlite.prepare(`PRAGMA ${pragma}`).get()?.[pragma]);
  let opened: number | undefined;
  const file = (): number => {
    opened ??= openSync(path, 'r+');
    return opened;
  };
  return {
    pageBytes: number('page_size'),
    returnsSpace: number('auto_vacuum') === INCREMENTAL,
    emptyWal: () => {
      try {
        return sqlite.prepare('PRAGMA wal_checkpoint(TRUNCATE)').get()?.['busy'] === 0;
      } catch (error) {
        throw toDiskError(error, 'deleted records may remain in it');
      }
    },
    clearPageCache: () => sqlite.exec('PRAGMA shrink_memory'),
    file,
    readFile: async (into, position) => {
      try {
        return (await readAsync(file(), into, 0, into.length, position)).bytesRead;
      } catch (cause) {
        throw new Unavailable(`the log's file: ${messageOf(cause)}; nothing was read`, { cause });
      }
    },
    readFileSync: (into, position) => readSync(file(), into, 0, into.length, position),
    close: () => {
      sqlite.close();
      if (opened !== undefined) closeSync(opened);
    },
  };
}

/** SQLite's primary result codes for disk and system errors (https://sqlite.org/rescode.html). */
const BUSY = 5;
const DISK_ERRORS: ReadonlySet<number> = new Set([
  BUSY,
  /* NOMEM */ 7,
  /* READONLY */ 8,
  /* IOERR */ 10,
  /* FULL */ 13,
  /* CANTOPEN */ 14,
]);

function toDiskError(error: unknown, outcome: string): unknown {
  const code = primaryCode(error);
  if (code === undefined || !DISK_ERRORS.has(code)) return error;
  return new Unavailable(`the log's file: ${messageOf(error)}; ${outcome}`, { cause: error });
}

function isBusy(error: unknown): boolean {
  return primaryCode(error) === BUSY;
}

function primaryCode(error: unknown): number | undefined {
  if (!(error instanceof Error) || !('errcode' in error) || typeof error.errcode !== 'number')
    return undefined;
  return error.errcode & 0xff;
}
