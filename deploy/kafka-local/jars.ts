/** The jars of Kafka and of the registry: fetched once with Maven, and again when the pom changes. */
import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const POM = fileURLToPath(new URL('./pom.xml', import.meta.url));
const JAVA = 'java';
const MINIMUM_JAVA = 17;

export interface Jars {
  readonly java: string;
  /** A class path. */
  readonly kafka: string;
  /** The jar to run. */
  readonly registry: string;
}

/** @throws where Java 17 is missing, or Maven when there is something to fetch. */
export function provideJars(folder: string): Jars {
  requireJava();
  const jars = join(folder, 'jars');
  if (!areOf(POM, jars)) fetchJars(folder, jars);
  const registryFolder = join(jars, 'registry');
  const runner = readdirSync(registryFolder).find((name) => name.endsWith('-runner.jar'));
  if (runner === undefined) throw new Error(`${registryFolder} has no runner jar; remove ${jars}`);
  return { java: JAVA, kafka: join(jars, 'kafka', '*'), registry: join(registryFolder, runner) };
}

function requireJava(): void {
  const needed = `Java ${MINIMUM_JAVA} or newer is needed`;
  const { error, stderr } = spawnSync(JAVA, ['-version'], { encoding: 'utf8' });
  if (error !== undefined) throw new Error(`${needed}, and there is no ${JAVA} on the PATH`);
  const version = /version "(?<major>\d+)/.exec(stderr)?.groups?.['major'];
  if (Number(version) >= MINIMUM_JAVA) return;
  throw new Error(`${needed}, and ${JAVA} on the PATH is ${version ?? 'of no known version'}`);
}

/** The pom is copied beside the jars last, so that half of them never pass for all. */
function areOf(pom: string, jars: string): boolean {
  const copy = join(jars, 'pom.xml');
  return existsSync(copy) && readFileSync(copy, 'utf8') === readFileSync(pom, 'utf8');
}

function fetchJars(folder: string, jars: string): void {
  if (spawnSync('mvn', ['-v']).error !== undefined) {
    throw new Error('Maven is needed to fetch the jars of Kafka, and there is no mvn on the PATH');
  }
  process.stderr.write('stack: fetching Kafka and the registry with Maven, once (about 165 MB)\n');
  rmSync(jars, { recursive: true, force: true });
  const unfinished = join(folder, 'jars.unfinished');
  rmSync(unfinished, { recursive: true, force: true });
  mkdirSync(unfinished, { recursive: true });
  const log = join(folder, 'maven.log');
  const args = ['-B', '-ntp', '-f', POM, `-Djars=${unfinished}`, 'generate-resources'];
  const { status, stdout, stderr } = spawnSync('mvn', args, {
    encoding: 'utf8',
    maxBuffer: 64 * 1024 * 1024,
  });
  writeFileSync(log, stdout + stderr);
  if (status !== 0) throw new Error(`Maven could not fetch the jars; see ${log}`);
  unpackRegistry(join(unfinished, 'registry'));
  writeFileSync(join(unfinished, 'pom.xml'), readFileSync(POM));
  renameSync(unfinished, jars);
}

function unpackRegistry(registryFolder: string): void {
  for (const archive of readdirSync(registryFolder).filter((name) => name.endsWith('.tar.gz'))) {
    execFileSync('tar', ['-xzf', archive], { cwd: registryFolder });
    rmSync(join(registryFolder, archive));
  }
}
