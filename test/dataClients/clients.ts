/** Builds and runs the programs that read from ClickHouse with the clients of data teams, at pinned versions. */
import { execFile, execFileSync, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { pythonWith } from '@questlog/runtime/process/testing/pythonEnvironment';
import { failIfRequired } from '@questlog/runtime/process/testing/required';

const run = promisify(execFile);
const here = (path: string): string => fileURLToPath(new URL(path, import.meta.url));
const CACHE = here('../../node_modules/.cache/questlog-data-clients');
/** Metabase bundles the first version. DBeaver and others use the latest version. */
export const JDBC_VERSIONS = ['0.9.8', '0.10.0'] as const;

/** Address and account of a ClickHouse server. */
export interface Target {
  readonly host: string;
  readonly username: string;
  readonly password: string;
}

/** Runs the client with the account, and returns its output. */
export type DataClient = (target: Target) => Promise<string>;

/** Returns undefined, and prints the reason, if the client cannot be built here. */
export async function goClient(): Promise<DataClient | undefined> {
  return unlessMissing('clickhouse-go', 'go', ['version'], async () => {
    const sources = ['go.mod', 'go.sum', 'main.go'].map((name) => readFileSync(here(`go/${name}`)));
    const program = join(CACHE, `go-${digestOf(sources)}`);
    if (!existsSync(program)) await run('go', ['build', '-o', program, '.'], { cwd: here('go') });
    return program;
  });
}

export async function jdbcClient(version: (typeof JDBC_VERSIONS)[number]): Promise<DataClient | undefined> {
  const jars = join(CACHE, `jdbc-${version}`);
  const command = await unlessMissing(
    'jdbc',
    'javac',
    ['-version'],
    async () => {
      if (!existsSync(jars)) provideJars(version, jars);
      return 'java';
    },
    ['-XX:TieredStopAtLevel=1', '-cp', join(jars, '*'), here('java/JdbcClient.java')],
  );
  return command;
}

export async function pythonClients(): Promise<DataClient | undefined> {
  const python = await pythonWith(here('requirements.txt'), 'clickhouse-connect and SQLAlchemy');
  return python === undefined ? undefined : runner(python, [here('pythonClients.py')]);
}

async function unlessMissing(
  name: string,
  program: string,
  versionArguments: readonly string[],
  provide: () => Promise<string>,
  args: readonly string[] = [],
): Promise<DataClient | undefined> {
  mkdirSync(CACHE, { recursive: true });
  if (spawnSync(program, versionArguments).status === 0) return runner(await provide(), args);
  const reason = `${program} is not installed`;
  failIfRequired(name, reason);
  console.warn(`skipped: ${name} cannot be tried here: ${reason}`);
  return undefined;
}

function runner(command: string, args: readonly string[]): DataClient {
  return async ({ host, username, password }) =>
    (await run(command, [...args, host, username, password], { maxBuffer: 16 * 1024 * 1024 })).stdout;
}

/** Downloads the jars of a driver with Maven. @throws Error if a jar differs from `java/jars.sha256`. */
function provideJars(version: string, jars: string): void {
  const unfinished = `${jars}.unfinished`;
  rmSync(unfinished, { recursive: true, force: true });
  const maven = ['-B', '-q', '-ntp', '-C', '-f', here('java/pom.xml'), `-Djars=${unfinished}`];
  execFileSync('mvn', [...maven, `-Ddriver.version=${version}`, 'generate-resources']);
  execFileSync('sha256sum', ['--check', '--quiet', here(`java/jars-${version}.sha256`)], { cwd: unfinished });
  renameSync(unfinished, jars);
}

function digestOf(parts: readonly Buffer[]): string {
  const hash = createHash('sha256');
  for (const part of parts) hash.update(part);
  return hash.digest('hex').slice(0, 12);
}
