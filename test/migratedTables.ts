/** Migrates one database. Test deployments copy its empty tables, because migrations take seconds of CPU time. */
import { randomUUID } from 'node:crypto';
import { fileURLToPath } from 'node:url';
import { openMigrated } from '@questlog/runtime/clickhouse/migrate';
import type { MigratedTables } from '@questlog/runtime/log/kafka/testing/engines';

const MIGRATIONS = fileURLToPath(new URL('../deploy/clickhouse', import.meta.url));

/** Returns statements that create the tables and record the migrations as applied. Drops the migrated database. */
export async function migratedTables(clickhouseUrl: string): Promise<MigratedTables> {
  const { origin, username, password } = new URL(clickhouseUrl);
  const account = { username: decodeURIComponent(username), password: decodeURIComponent(password) };
  const database = `migrated_${randomUUID().replaceAll('-', '')}`;
  const store = await openMigrated({ url: origin, ...account, database }, MIGRATIONS);
  const tables = await store.query<{ sql: string }>(
    `SELECT create_table_query AS sql FROM system.tables WHERE database = '${database}' ORDER BY engine = 'View', name`,
  );
  const [rows] = await store.query<{ sql: string }>(
    `SELECT 'INSERT INTO ${database}.schema_migrations (name, sha256) VALUES ' ||
       arrayStringConcat(groupArray('(\\'' || name || '\\', \\'' || sha256 || '\\')'), ', ') AS sql
     FROM schema_migrations`,
  );
  await store.command(`DROP DATABASE ${database}`);
  await store.close();
  const statements = [
    `CREATE DATABASE ${database} ENGINE = Atomic`,
    ...[...tables, rows].map((row) => row?.sql ?? ''),
  ];
  return { database, statements };
}
