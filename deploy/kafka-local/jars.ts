/** Downloads the jars of Kafka and the schema registry with Maven, if the jars are missing or `pom.xml` has changed. */
import { execFileSync, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { withLock } from './lock.ts';

const POM = fileURLToPath(new URL('./pom.xml', import.meta.url));
/**
 * Checksums of the jars. After a change of the pom, review the new jars and write their checksums with `cd $jars.unfinished &&
 * sha256sum kafka/* registry/*`.
 */
const SUMS = fileURLToPath(new URL('./jars.sha256', import.meta.url));
const JAVA = 'java';
const MINIMUM_JAVA = 17;

/**
 * Disables the JVM's second JIT compiler and its concurrent garbage collector. On two cores, three brokers and the registry start
 * in 7 s instead of 13 s.
 */
export const QUICK_START: readonly string[] = ['-XX:TieredStopAtLevel=1', '-XX:+UseSerialGC'];

export interface Jars {
  readonly java: string;
  readonly folder: string;
  readonly kafka: string;
  readonly registry: string;
}

/** Returns the paths of the jars, and downloads missing jars. @throws if Java 17 or Maven is missing. */
export async function provideJars(jars: string): Promise<Jars> {
  requireJava();
  if (!areFetchedFor(POM, jars)) {
    await withLock(jars, async () => {
      if (!areFetchedFor(POM, jars)) fetchJars(jars);
    });
  }
  const registryFolder = join(jars, 'registry');
  const runner = readdirSync(registryFolder).find((name) => name.endsWith('-runner.jar'));
  if (runner === undefined) throw new Error(`${registryFolder} has no runner jar; remove ${jars}`);
  return {
    java: JAVA,
    folder: jars,
    kafka: join(jars, 'kafka', '*'),
    registry: join(registryFolder, runner),
  };
}

/** Path of the archive of Kafka's classes. Java ignores a missing archive and an archive of another Java version. */
export function classArchive({ folder }: Jars): string {
  return join(folder, 'kafka.jsa');
}

function requireJava(): void {
  const needed = `Java ${MINIMUM_JAVA} or newer is needed`;
  const { error, stderr } = spawnSync(JAVA, ['-version'], { encoding: 'utf8' });
  if (error !== undefined) throw new Error(`${needed}, but ${JAVA} is not on the PATH`);
  const version = /version "(?<major>\d+)/.exec(stderr)?.groups?.['major'];
  if (Number(version) >= MINIMUM_JAVA) return;
  throw new Error(`${needed}, but ${JAVA} on the PATH has version ${version ?? 'unknown'}`);
}

/** The pom is copied into the folder after all jars, so an incomplete folder has no pom. */
function areFetchedFor(pom: string, jars: string): boolean {
  const copy = join(jars, 'pom.xml');
  return existsSync(copy) && readFileSync(copy, 'utf8') === readFileSync(pom, 'utf8');
}

function fetchJars(jars: string): void {
  if (spawnSync('mvn', ['-v']).error !== undefined) {
    throw new Error('Maven is needed to download the jars of Kafka, but mvn is not on the PATH');
  }
  process.stderr.write('stack: downloading Kafka and the registry with Maven, once (about 165 MB)\n');
  rmSync(jars, { recursive: true, force: true });
  const unfinished = `${jars}.unfinished`;
  rmSync(unfinished, { recursive: true, force: true });
  mkdirSync(unfinished, { recursive: true });
  const log = join(dirname(jars), 'maven.log');
  // `-C` makes Maven fail if a checksum is wrong. Maven's plugins need this option, because `jars.sha256` does not contain
  // their checksums.
  const args = ['-B', '-ntp', '-C', '-f', POM, `-Djars=${unfinished}`, 'generate-resources'];
  const { status, stdout, stderr } = spawnSync('mvn', args, {
    encoding: 'utf8',
    maxBuffer: 64 * 1024 * 1024,
  });
  writeFileSync(log, stdout + stderr);
  if (status !== 0) throw new Error(`Maven could not download the jars; see ${log}`);
  requireSums(unfinished, readFileSync(SUMS, 'utf8'));
  unpackRegistry(join(unfinished, 'registry'));
  writeFileSync(join(unfinished, 'pom.xml'), readFileSync(POM));
  renameSync(unfinished, jars);
}

function requireSums(folder: string, sums: string): void {
  const files = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((one) => one.isFile());
  const found = files.map(({ parentPath, name }) => {
    const path = join(parentPath, name);
    return `${createHash('sha256').update(readFileSync(path)).digest('hex')}  ${relative(folder, path)}`;
  });
  const listed = sums.trim().split('\n');
  const names = [...found, ...listed]
    .filter((line) => !found.includes(line) || !listed.includes(line))
    .map((line) => line.replace(/^\S+ +/, ''));
  if (names.length === 0) return;
  throw new Error(
    `these files do not match deploy/kafka-local/jars.sha256, see ${folder}: ${[...new Set(names)].join(', ')}`,
  );
}

function unpackRegistry(registryFolder: string): void {
  for (const archive of readdirSync(registryFolder).filter((name) => name.endsWith('.tar.gz'))) {
    execFileSync('tar', ['-xzf', archive], { cwd: registryFolder });
    rmSync(join(registryFolder, archive));
  }
}
