/** How the schema registry and the embedded ClickHouse are started as processes of the stack: command lines, environment. */
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type Jars, QUICK_START } from './jars.ts';
import { CLICKHOUSE_USER, type ClickHouseNode, clusterFolder, type RegistryNode } from './stackState.ts';

/** Timeout for the database's file. The default of 5 s ends a registry that starts on a busy machine. */
const DATABASE_TIMEOUT = '120S';

/**
 * Java's arguments for the registry. Its schemas are in a file. By default they are in memory, and after a restart the
 * ids in the topics would mean nothing, or something else.
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

/** Node's arguments for it. */
export const CLICKHOUSE_ARGUMENTS = [MAIN];

/** Its settings, in the environment: everybody on the machine can read a command line. */
export function clickhouseEnvironment(
  folder: string,
  { port, password }: ClickHouseNode,
): Readonly<Record<string, string>> {
  return {
    EMBEDDED_CLICKHOUSE_DIRECTORY: join(clusterFolder(folder), 'clickhouse'),
    EMBEDDED_CLICKHOUSE_PORT: String(port),
    EMBEDDED_CLICKHOUSE_USERNAME: CLICKHOUSE_USER,
    EMBEDDED_CLICKHOUSE_PASSWORD: password,
    // One password for both of its users.
    EMBEDDED_CLICKHOUSE_READER_PASSWORD: password,
  };
}
