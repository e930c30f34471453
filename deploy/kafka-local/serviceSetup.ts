/** Creates the command lines and environments of the schema registry and the embedded ClickHouse. */
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type Jars, QUICK_START } from './jars.ts';
import { CLICKHOUSE_USER, type ClickHouseNode, clusterFolder, type RegistryNode } from './stackState.ts';

/** Timeout for opening the database file. With the default of 5 s, the schema registry exits on a busy machine. */
const DATABASE_TIMEOUT = '120S';

/** The registry stores its schemas in a file instead of in memory, because the schema ids in topics must survive a restart. */
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

/** Returns ClickHouse's settings as environment variables, because every user of the machine can read a command line. */
export function clickhouseEnvironment(
  folder: string,
  { port, password }: ClickHouseNode,
): Readonly<Record<string, string>> {
  return {
    EMBEDDED_CLICKHOUSE_DIRECTORY: join(clusterFolder(folder), 'clickhouse'),
    EMBEDDED_CLICKHOUSE_PORT: String(port),
    EMBEDDED_CLICKHOUSE_USERNAME: CLICKHOUSE_USER,
    EMBEDDED_CLICKHOUSE_PASSWORD: password,
    // The administrator and the read-only account of ClickHouse have the same password.
    EMBEDDED_CLICKHOUSE_READER_PASSWORD: password,
  };
}
