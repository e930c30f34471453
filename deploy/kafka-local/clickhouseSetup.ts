/** The command line and environment of the embedded ClickHouse as a process of its own. */
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { CLICKHOUSE_USER, type ClickHouseNode, clusterFolder } from './stackState.ts';

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
