/** The jars of Kafka and of the registry, fetched with Maven once and when the pom changes. */
import { execFileSync, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { withLock } from './lock.ts';

const POM = fileURLToPath(new URL('./pom.xml', import.meta.url));
/**
 * As `sha256sum` writes them. After a change of the pom: look at what is new, then write them with
 * `cd $jars.unfinished && sha256sum kafka/* registry/*`.
 */
const SUMS = fileURLToPath(new URL('./jars.sha256', import.meta.url));
const JAVA = 'java';
const MINIMUM_JAVA = 17;

/**
 * Java's options for everything that runs from the jars. The second compiler competes with the start for the cores:
 * without it, three brokers and the registry answered after 7 s instead of 13 on two cores.
 */
export const QUICK_START: readonly string[] = ['-XX:TieredStopAtLevel=1'];

export interface Jars {
  readonly java: string;
  /** A class path. */
  readonly kafka: string;
  /** The jar to run. */
  readonly registry: string;
}

/**
 * @param jars their folder, which several stacks may share.
 * @throws when Java 17 is missing, or Maven is needed and missing.
 */
export async function provideJars(jars: string): Promise<Jars> {
  requireJava();
  if (!areFetchedFor(POM, jars)) {
    await withLock(jars, async () => {
      // Another stack may have fetched them while this one waited.
      if (!areFetchedFor(POM, jars)) fetchJars(jars);
    });
  }
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

/** Copies the pom beside the jars last, so that half of them never pass for all. */
function areFetchedFor(pom: string, jars: string): boolean {
  const copy = join(jars, 'pom.xml');
  return existsSync(copy) && readFileSync(copy, 'utf8') === readFileSync(pom, 'utf8');
}

function fetchJars(jars: string): void {
  if (spawnSync('mvn', ['-v']).error !== undefined) {
    throw new Error('Maven is needed to fetch the jars of Kafka, and there is no mvn on the PATH');
  }
  process.stderr.write('stack: fetching Kafka and the registry with Maven, once (about 165 MB)\n');
  rmSync(jars, { recursive: true, force: true });
  const unfinished = `${jars}.unfinished`;
  rmSync(unfinished, { recursive: true, force: true });
  mkdirSync(unfinished, { recursive: true });
  const log = join(dirname(jars), 'maven.log');
  // `-C`: also Maven's own plugin is what its repository says.
  const args = ['-B', '-ntp', '-C', '-f', POM, `-Djars=${unfinished}`, 'generate-resources'];
  const { status, stdout, stderr } = spawnSync('mvn', args, {
    encoding: 'utf8',
    maxBuffer: 64 * 1024 * 1024,
  });
  writeFileSync(log, stdout + stderr);
  if (status !== 0) throw new Error(`Maven could not fetch the jars; see ${log}`);
  requireSums(unfinished, readFileSync(SUMS, 'utf8'));
  unpackRegistry(join(unfinished, 'registry'));
  writeFileSync(join(unfinished, 'pom.xml'), readFileSync(POM));
  renameSync(unfinished, jars);
}

/** @throws naming the files of the folder that are not those of the list, or that it lacks. */
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
    `not what deploy/kafka-local/jars.sha256 says, see ${folder}: ${[...new Set(names)].join(', ')}`,
  );
}

function unpackRegistry(registryFolder: string): void {
  for (const archive of readdirSync(registryFolder).filter((name) => name.endsWith('.tar.gz'))) {
    execFileSync('tar', ['-xzf', archive], { cwd: registryFolder });
    rmSync(join(registryFolder, archive));
  }
}
