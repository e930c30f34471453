/**
 * Provides an embedded ClickHouse with the product's tables. The test files of a worker run one after another and share the
 * engine. A process can have only one engine, and each start takes a second of CPU time.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { openMigrated } from '../../migrate.ts';
import type { Store, StoreOptions } from '../../store.ts';
import { startEmbeddedClickHouse } from '../embeddedClickHouse.ts';
import { fillWithTables } from './migratedFolder.ts';

const MIGRATIONS = fileURLToPath(new URL('../../../../../../deploy/clickhouse', import.meta.url));
const ACCOUNT = { username: 'test', password: 'test' };

export interface SharedEngine {
  readonly store: Store;
  /** Options with which a test can open the store. */
  readonly access: StoreOptions;
}

let running: Promise<SharedEngine & { close(): Promise<void> }> | undefined;

/** Returns the engine of this worker with empty tables. The engine stays open for the next test file. */
export async function emptyTables(): Promise<SharedEngine> {
  running ??= start();
  const { store, access } = await running;
  const filled = await store.query<{ name: string }>(
    `SELECT name FROM system.tables
     WHERE database = currentDatabase() AND total_rows > 0 AND name != 'schema_migrations'`,
  );
  for (const { name } of filled) await store.command(`TRUNCATE TABLE ${name}`);
  return { store, access };
}

/** Closes the engine of this worker, so that a test can start an engine on another directory. */
export async function closeSharedEngine(): Promise<void> {
  const closing = running;
  running = undefined;
  await (await closing)?.close();
}

async function start() {
  const directory = mkdtempSync(join(tmpdir(), 'questlog-shared-'));
  const remove = (): void => rmSync(directory, { recursive: true, force: true, maxRetries: 3 });
  // Removes the directory when Vitest ends the worker with SIGTERM.
  const removeAndEnd = (): void => {
    try {
      remove();
    } finally {
      process.kill(process.pid, 'SIGKILL');
    }
  };
  process.once('SIGTERM', removeAndEnd);
  fillWithTables(directory);
  const server = await startEmbeddedClickHouse({ directory, ...ACCOUNT });
  const access = { url: server.url, ...ACCOUNT, database: 'questlog' };
  const store = await openMigrated(access, MIGRATIONS);
  const close = async (): Promise<void> => {
    await store.close();
    await server.close();
    process.off('SIGTERM', removeAndEnd);
    remove();
  };
  return { store, access, close };
}
