/** The schema registry's command line. */
import { join } from 'node:path';
import { type Jars, QUICK_START } from './jars.ts';
import { clusterFolder, type RegistryNode } from './stackState.ts';

/** Timeout for the database's file. The default of 5 s ends a registry that starts on a busy machine. */
const OPENED_WITHIN = '120S';

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
    `-Dquarkus.datasource.h2.jdbc.acquisition-timeout=${OPENED_WITHIN}`,
    '-jar',
    jars.registry,
  ];
}
