/**
 * Applies the SQL files of a folder (`001-name.sql`) to a database in the order of their names. A line that contains only `;`
 * separates two statements. A process can be killed during a migration, so every statement must have the same effect if the
 * statement runs again.
 */
import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { StartRefused } from '../process/errors.ts';
import { Backoff, retry } from '../process/waiting.ts';
import { codeOf, TABLE_ALREADY_EXISTS } from './clickhouseErrors.ts';
import { openStore, type Store, type StoreOptions } from './store.ts';
import { requireSupportedClickHouse } from './waitForClickHouse.ts';

export const MIGRATIONS_TABLE = `
  CREATE TABLE IF NOT EXISTS schema_migrations (name String, sha256 String, applied_at DateTime64(3, 'UTC') DEFAULT now64(3))
  ENGINE = MergeTree ORDER BY name SETTINGS fsync_after_insert = 1, fsync_part_directory = 1`;

/** @param storagePolicy storage policy that all tables get. If it is empty, the storage policies do not change. */
export async function openMigrated(
  options: StoreOptions,
  directory: string,
  storagePolicy = '',
  open: (options: StoreOptions) => Store = openStore,
): Promise<Store> {
  const maintenance = open({ ...options, database: 'default' });
  try {
    await requireSupportedClickHouse(maintenance);
    await maintenance.command(`CREATE DATABASE IF NOT EXISTS ${options.database} ENGINE = Atomic`);
  } finally {
    await maintenance.close();
  }
  const store = open(options);
  await migrate(store, directory);
  if (storagePolicy !== '') await changeStoragePolicy(store, storagePolicy);
  return store;
}

async function changeStoragePolicy(store: Store, policy: string): Promise<void> {
  const tables = await store.query<{ name: string }>(
    `SELECT name FROM system.tables
     WHERE database = currentDatabase() AND engine LIKE '%MergeTree' AND storage_policy != {policy:String}`,
    { policy },
  );
  for (const { name } of tables)
    await store.command(`ALTER TABLE \`${name}\` MODIFY SETTING storage_policy = '${policy}'`);
}

async function migrate(store: Store, directory: string): Promise<void> {
  await store.command(MIGRATIONS_TABLE);
  const rows = await store.query<AppliedFile>('SELECT name, sha256 FROM schema_migrations');
  for (const { name, sql, sha256 } of pendingFiles(migrationFiles(directory), rows)) {
    await apply(store, name, sql, sha256);
  }
}

export interface AppliedFile {
  readonly name: string;
  readonly sha256: string;
}

export interface MigrationFile extends AppliedFile {
  readonly sql: string;
}

export function migrationFiles(directory: string): MigrationFile[] {
  const names = readdirSync(directory).filter((file) => file.endsWith('.sql'));
  return names.sort().map((name) => {
    const sql = readFileSync(join(directory, name), 'utf8');
    return { name, sql, sha256: createHash('sha256').update(sql).digest('hex') };
  });
}

/** Returns the files that were not applied. @throws StartRefused if an applied file was changed. */
export function pendingFiles(
  files: readonly MigrationFile[],
  applied: readonly AppliedFile[],
): MigrationFile[] {
  const appliedSha256 = new Map(applied.map(({ name, sha256 }) => [name, sha256]));
  const changed = files.find(({ name, sha256 }) => (appliedSha256.get(name) ?? sha256) !== sha256);
  if (changed === undefined) return files.filter(({ name }) => !appliedSha256.has(name));
  throw new StartRefused(
    `migration ${changed.name} was changed after it had been applied; add a new file instead`,
  );
}

/** Applies a file of SQL statements. Repeats the whole file after an error, for example if two processes start together. */
async function apply(store: Store, name: string, sql: string, sha256: string): Promise<void> {
  const applyOnce = async (): Promise<void> => {
    for (const statement of sql.split(/^;$/m)) {
      if (statement.trim() !== '') await store.command(statement).catch(ignoreExistingTable);
    }
    await store.command(`INSERT INTO schema_migrations (name, sha256) VALUES ('${name}', '${sha256}')`);
  };
  let failures = 0;
  const isRetryable = (): boolean => ++failures < MAX_ATTEMPTS;
  await retry(applyOnce, { backoff: new Backoff(FIRST_PAUSE_MS, MAX_PAUSE_MS), isRetryable });
}

function ignoreExistingTable(error: unknown): void {
  if (codeOf(error) !== TABLE_ALREADY_EXISTS) throw error;
}

const MAX_ATTEMPTS = 10;
const FIRST_PAUSE_MS = 100;
const MAX_PAUSE_MS = 500;
