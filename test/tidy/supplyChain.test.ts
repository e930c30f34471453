/** Checks third-party packages: checksums, licences, and the list of all packages. */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { ROOT, textOf } from './projectFiles.ts';
import { expectNone } from './violations.ts';

interface LockEntry {
  /** Name of the package that replaces this package. Undefined if the package is not replaced. */
  readonly name?: string;
  readonly version?: string;
  readonly integrity?: string;
  readonly license?: string;
  readonly link?: boolean;
  readonly resolved?: string;
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly optionalDependencies?: Readonly<Record<string, string>>;
}

const LOCKS = ['package-lock.json', 'test/mutation/package-lock.json'];
const lock = entriesOf('package-lock.json');
/** Workspace that the image installs (deploy/Dockerfile). */
const shipped = shippedBy('services/cli');

/**
 * Packages without a checksum in package-lock.json. npm adds the checksum of a package that it installs, and
 * `npm run lock:complete` requests the others. Each entry has a version, so that an upgrade checks again.
 */
const WITHOUT_CHECKSUM: readonly string[] = [
  ...[
    'android-arm64',
    'android-x64',
    'darwin-arm64',
    'darwin-x64',
    'linux-arm64-musl',
    'linux-x64-musl',
    'win32-arm64',
    'win32-x64',
  ].map((name) => `@biomejs/cli-${name}@2.6.8`),
  ...['darwin-arm64', 'darwin-x64', 'linux-arm64-gnu'].map((name) => `@chdb/lib-${name}@26.7.3-stable.1`),
  ...['darwin-64', 'darwin-arm64', 'windows-64', 'windows-arm64'].map((name) => `@turbo/${name}@2.11.11`),
];

/** Licences that allow use, change, and distribution under Apache-2.0 and require only attribution. */
const ALLOWED = [
  'MIT',
  'Apache-2.0',
  'ISC',
  'BSD-2-Clause',
  'BSD-3-Clause',
  'BlueOak-1.0.0',
  '0BSD',
  'Unlicense',
];
/** Packages whose package.json names no licence, each with the file that does. */
const LICENCES_IN_OTHER_FILES: Readonly<Record<string, string>> = {
  '@kafkajs/confluent-schema-registry': 'MIT', // its file LICENSE
  '@chdb/lib-darwin-arm64': 'Apache-2.0', // the package of linux-x64, of the same source
  '@chdb/lib-darwin-x64': 'Apache-2.0',
  '@chdb/lib-linux-arm64-gnu': 'Apache-2.0',
};

test('every package has a checksum in package-lock.json', () => {
  const lacking = LOCKS.flatMap((path) =>
    fromRegistry(entriesOf(path)).filter(([, { integrity = '' }]) => !/^sha512-\S{88}$/.test(integrity)),
  ).map(([path, { version }]) => `${nameOf(path)}@${version}`);
  expectNone([
    ...lacking
      .filter((one) => !WITHOUT_CHECKSUM.includes(one))
      .map((one) => `package-lock.json: ${one} has no SHA-512; run npm run lock:complete`),
    ...WITHOUT_CHECKSUM.filter((one) => !lacking.includes(one)).map(
      (one) =>
        `test/tidy/supplyChain.test.ts: ${one} has a checksum or is not installed; remove the entry from WITHOUT_CHECKSUM`,
    ),
  ]);
});

test('each shipped package has an allowed licence', () => {
  expect(shipped.size).toBeGreaterThan(100);
  expectNone(
    [...shipped]
      .map((path) => ({
        name: nameOf(path),
        licence: lock[path]?.license ?? LICENCES_IN_OTHER_FILES[nameOf(path)],
      }))
      .filter(({ licence }) => !ALLOWED.includes(licence ?? ''))
      .map(({ name, licence = 'no licence' }) => `package-lock.json: ${name} has ${licence}`),
  );
});

// Without `--omit dev`, because that option excludes packages that another workspace has as a development tool, for example typebox.
test('npm run sbom lists exactly the shipped packages, with checksums and licences', () => {
  const { stdout, stderr } = spawnSync('npm', ['run', '--silent', 'sbom'], {
    cwd: ROOT,
    encoding: 'utf8',
    maxBuffer: 16 * 1024 * 1024,
  });
  expect(stdout, stderr).toMatch(/^\{/);
  interface Component {
    readonly purl: string;
    readonly hashes?: readonly unknown[];
    readonly licenses?: readonly unknown[];
  }
  const bom: { bomFormat: string; components: Component[] } = JSON.parse(stdout);
  expect(bom.bomFormat).toBe('CycloneDX');
  const listed = bom.components.map(({ purl }) => decodeURIComponent(purl).replace('pkg:npm/', ''));
  const named = [...shipped].map((path) => `${nameOf(path)}@${lock[path]?.version}`);
  const others = listed.filter((one) => !one.startsWith('@questlog/'));
  expect([...new Set(others)].sort()).toEqual([...new Set(named)].sort());
  const bare = bom.components
    .filter(({ hashes = [], licenses = [] }) => hashes.length * licenses.length === 0)
    .map(({ purl }) => decodeURIComponent(purl).replace('pkg:npm/', ''))
    .filter((one) => !one.startsWith('@questlog/') && !WITHOUT_CHECKSUM.includes(one));
  expect(bare.map((one) => one.replace(/@[^@]+$/, ''))).toEqual(['@kafkajs/confluent-schema-registry']);
});

test('the local Kafka does not start with a jar whose checksum differs from the list', ({ skip }) => {
  if (process.platform !== 'linux') skip('the local Kafka needs Linux');
  const folder = mkdtempSync(join(tmpdir(), 'questlog-jars-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const program = (name: string, text: string) =>
    writeFileSync(join(folder, name), `#!/bin/sh\n${text}\n`, { mode: 0o700 });
  const [jar] = textOf('deploy/kafka-local/jars.sha256').match(/\S+$/m) ?? [];
  program('java', 'echo \'openjdk version "17"\' >&2');
  // Simulates a manipulated download: the first jar of the list has other bytes, and the other jars are missing.
  const put = `mkdir -p "$to/kafka" "$to/registry"; echo other > "$to/${jar}"; echo new > "$to/kafka/new.jar"`;
  program('mvn', `for a; do case $a in -Djars=*) to="\${a#-Djars=}"; ${put};; esac; done`);
  const { status, stderr } = spawnSync(process.execPath, ['deploy/kafka-local/stack.ts', 'up'], {
    cwd: ROOT,
    encoding: 'utf8',
    env: {
      ...process.env,
      PATH: `${folder}:${process.env['PATH']}`,
      QUESTLOG_DATA_DIR: folder,
      QUESTLOG_STACK_JARS: join(folder, 'jars'),
    },
  });
  expect({ status, stderr }).toEqual({
    status: 1,
    stderr: expect.stringContaining('these files do not match deploy/kafka-local/jars.sha256'),
  });
  for (const name of [jar, 'kafka/new.jar', 'registry/apicurio-registry-app-3.0.9-all.tar.gz'])
    expect(stderr).toContain(name);
});

function entriesOf(path: string): Record<string, LockEntry> {
  return JSON.parse(textOf(path)).packages;
}

/** Returns the packages without the workspaces. */
function fromRegistry(entries: Record<string, LockEntry>): [string, LockEntry][] {
  return Object.entries(entries).filter(([path, { link }]) => path.includes('node_modules/') && !link);
}

/** Returns the paths of the registry packages that a workspace needs, on every platform. */
function shippedBy(workspace: string): Set<string> {
  const found = new Set([workspace]);
  for (const path of found) {
    const { dependencies, optionalDependencies } = lock[path] ?? {};
    for (const name of Object.keys({ ...dependencies, ...optionalDependencies })) {
      const place = placeOf(name, path);
      found.add(lock[place]?.link ? (lock[place].resolved ?? '') : place);
    }
  }
  return new Set([...found].filter((path) => path.includes('node_modules/')));
}

/** Resolves a package like Node: in the importer's node_modules, then in the parent folders. */
function placeOf(name: string, asker: string): string {
  for (let from = asker; ; from = from.slice(0, Math.max(0, from.lastIndexOf('/')))) {
    const place = from === '' ? `node_modules/${name}` : `${from}/node_modules/${name}`;
    if (lock[place] !== undefined) return place;
    if (from === '') throw new Error(`package-lock.json: ${asker} needs ${name}, which is not there`);
  }
}

function nameOf(path: string): string {
  return lock[path]?.name ?? path.split('node_modules/').at(-1) ?? path;
}
