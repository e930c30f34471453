/** What the schema registry runs with. */
import { join } from 'node:path';
import { type Jars, QUICK_START } from './jars.ts';
import { clusterFolder, type RegistryNode } from './stackState.ts';

/** For the database's file. By default 5 s, after which a registry ends that starts on a busy machine. */
const OPENED_WITHIN = '120S';

/**
 * The arguments of Java for the registry. Its schemas are in a file, since by default they are in memory only: after a
 * restart the ids in the topics would mean nothing, or something else.
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
