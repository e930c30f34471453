/** Migrates one folder of the embedded ClickHouse before the first test that starts on a copy of it. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { startEngineProcess } from '@questlog/runtime/clickhouse/chdb/engineProcess';
import { MIGRATED_FOLDER } from '@questlog/runtime/clickhouse/chdb/testing/migratedFolder';
import { openMigrated } from '@questlog/runtime/clickhouse/migrate';
import { silentLogger } from '@questlog/runtime/process/logger';

const MIGRATIONS = fileURLToPath(new URL('../deploy/clickhouse', import.meta.url));

/** State of the whole run. Every tier loads this module again, so the state is global. */
const run = globalThis as typeof globalThis & {
  questlogMigrated?: Promise<string>;
  questlogFolderTiers?: number;
};

export async function setup(): Promise<() => Promise<void>> {
  run.questlogFolderTiers = (run.questlogFolderTiers ?? 0) + 1;
  run.questlogMigrated ??= migrated();
  const directory = await run.questlogMigrated;
  process.env[MIGRATED_FOLDER] = directory;
  return async () => {
    run.questlogFolderTiers = (run.questlogFolderTiers ?? 1) - 1;
    if (run.questlogFolderTiers === 0) rmSync(directory, { recursive: true, force: true });
  };
}

async function migrated(): Promise<string> {
  const directory = mkdtempSync(join(tmpdir(), 'questlog-migrated-'));
  const account = { username: 'test', password: 'test' };
  const engine = await startEngineProcess({ directory, ...account }, silentLogger);
  const store = await openMigrated({ url: engine.url, ...account, database: 'questlog' }, MIGRATIONS);
  await store.close();
  await engine.close();
  return directory;
}
