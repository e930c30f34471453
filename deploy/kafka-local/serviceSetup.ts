/** Command lines and environments of the schema registry and the embedded ClickHouse. */
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type Jars, QUICK_START } from './jars.ts';
import { CLICKHOUSE_USER, type ClickHouseNode, clusterFolder, type RegistryNode } from './stackState.ts';

/** Timeout for opening the database file. With the default of 5 s, the registry exits on a busy machine. */
const DATABASE_TIMEOUT = '120S';

/**
 * Returns Java's arguments for the registry. The schemas are stored in a file, because ids in topics must survive a
 * restart. By default they are in memory.
 */
export function registryArguments(folder: string, { port }: RegistryNode, jars: Jars): string[] {
  const database = join(clusterFolder(folder), 'registry', 'schemas');
  return [
    ...QUICK_START,
    '-Xmx512m',
    '-Dquarkus.http.host=127.0.0.1',
    `-Dquarkus.http.port=${port}`,
    `-Dapicurio.datasource.url=jdbc:h2:file:${database}`,
    `-Dquarkus.datasource.h2.jdbc.acquisition-timeout=${DATABASE_TIMEOUT}`,
    '-jar',
    jars.registry,
  ];
}

const MAIN = fileURLToPath(new URL('../../services/runtime/src/clickhouse/chdb/main.ts', import.meta.url));

export const CLICKHOUSE_ARGUMENTS = [MAIN];

/** Passes the settings in the environment, because every user of the machine can read a command line. */
export function clickhouseEnvironment(
  folder: string,
  { port, password }: ClickHouseNode,
): Readonly<Record<string, string>> {
  return {
    EMBEDDED_CLICKHOUSE_DIRECTORY: join(clusterFolder(folder), 'clickhouse'),
    EMBEDDED_CLICKHOUSE_PORT: String(port),
    EMBEDDED_CLICKHOUSE_USERNAME: CLICKHOUSE_USER,
    EMBEDDED_CLICKHOUSE_PASSWORD: password,
    // Both accounts have the same password.
    EMBEDDED_CLICKHOUSE_READER_PASSWORD: password,
  };
}
