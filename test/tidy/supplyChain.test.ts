/** What comes from others is what was meant: checksums, licences, and a list of it all. */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { ROOT, textOf } from './house.ts';
import { expectNone } from './violations.ts';

interface LockEntry {
  /** Where another package stands in its place. */
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
/** What the image installs: deploy/Dockerfile names this workspace. */
const shipped = shippedBy('services/cli');

/**
 * Without a checksum in the lock: npm adds it where it installs one, `npm run lock:complete` asks for the rest. A version of
 * its own each, so that an upgrade looks again.
 */
const UNKNOWN: readonly string[] = [
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

/** Each lets Questlog be run, changed and passed on under Apache-2.0, and asks for no more than to be named. */
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
/** Of packages that tell none where npm looks, and where they do. */
const TOLD_ELSEWHERE: Readonly<Record<string, string>> = {
  '@kafkajs/confluent-schema-registry': 'MIT', // its file LICENSE
  '@chdb/lib-darwin-arm64': 'Apache-2.0', // the package of linux-x64, of the same source
  '@chdb/lib-darwin-x64': 'Apache-2.0',
  '@chdb/lib-linux-arm64-gnu': 'Apache-2.0',
};

test('every package has a checksum in its lock, so that npm ci takes no other', () => {
  const lacking = LOCKS.flatMap((path) =>
    fromRegistry(entriesOf(path)).filter(([, { integrity = '' }]) => !/^sha512-\S{88}$/.test(integrity)),
  ).map(([path, { version }]) => `${nameOf(path)}@${version}`);
  expectNone([
    ...lacking
      .filter((one) => !UNKNOWN.includes(one))
      .map((one) => `package-lock.json: ${one} has no SHA-512; run npm run lock:complete`),
    ...UNKNOWN.filter((one) => !lacking.includes(one)).map(
      (one) => `test/tidy/supplyChain.test.ts: ${one} has a checksum or is gone; take it out of UNKNOWN`,
    ),
  ]);
});

test('what is shipped may be shipped: each package’s licence is an allowed one', () => {
  expect(shipped.size).toBeGreaterThan(100);
  expectNone(
    [...shipped]
      .map((path) => ({ name: nameOf(path), licence: lock[path]?.license ?? TOLD_ELSEWHERE[nameOf(path)] }))
      .filter(({ licence }) => !ALLOWED.includes(licence ?? ''))
      .map(({ name, licence = 'no licence' }) => `package-lock.json: ${name} has ${licence}`),
  );
});

/** Without `--omit dev`, which leaves out what any other workspace also has as a tool: typebox, for one. */
test('npm run sbom lists every package that is shipped, and no other, with its checksum and licence', () => {
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
    .filter((one) => !one.startsWith('@questlog/') && !UNKNOWN.includes(one));
  expect(bare.map((one) => one.replace(/@[^@]+$/, ''))).toEqual(['@kafkajs/confluent-schema-registry']);
});

test('a jar that is another than the listed one is not run: the local Kafka does not start', ({ skip }) => {
  if (process.platform !== 'linux') skip('the local Kafka needs Linux');
  const folder = mkdtempSync(join(tmpdir(), 'questlog-jars-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const program = (name: string, text: string) =>
    writeFileSync(join(folder, name), `#!/bin/sh\n${text}\n`, { mode: 0o700 });
  const [jar] = textOf('deploy/kafka-local/jars.sha256').match(/\S+$/m) ?? [];
  program('java', 'echo \'openjdk version "17"\' >&2');
  // Maven that was lied to: the first jar of the list is another, and the rest is not there.
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
    stderr: expect.stringContaining('not what deploy/kafka-local/jars.sha256 says'),
  });
  for (const name of [jar, 'kafka/new.jar', 'registry/apicurio-registry-app-3.0.9-all.tar.gz'])
    expect(stderr).toContain(name);
});

function entriesOf(path: string): Record<string, LockEntry> {
  return JSON.parse(textOf(path)).packages;
}

/** Less the workspaces. */
function fromRegistry(entries: Record<string, LockEntry>): [string, LockEntry][] {
  return Object.entries(entries).filter(([path, { link }]) => path.includes('node_modules/') && !link);
}

/** Paths of the packages from the registry that a workspace needs, with those of every platform. */
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

/** As Node looks: beside the asker, then further up. */
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
