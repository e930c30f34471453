/** Checks that each `package.json` has exactly the dependencies that its sources import, all from the registry. */
import { expect, test } from 'vitest';
import { packageOf, reached } from './graph.ts';
import {
  isMain,
  type Manifest,
  manifestOf,
  projectFiles,
  textOf,
  workspaceOf,
  workspaces,
} from './projectFiles.ts';
import { parseSources } from './sources.ts';
import { expectNone } from './violations.ts';

const sources = parseSources();
const root = manifestOf('');
const product = reached([...sources.keys()].filter(isMain), {
  sources,
  follow: () => true,
  throughLiterals: false,
});

/** Tools that no source imports, each with its purpose. */
const TOOLS: Readonly<Record<string, string>> = {
  '@biomejs/biome': 'biome.json',
  rolldown: 'services/client/build.mjs',
  turbo: 'turbo.json',
  '@types/node': 'tsconfig.base.json',
};

test.each(workspaces())('%s depends on exactly what it imports', (folder) => {
  const { name, dependencies = {}, devDependencies = {} } = manifestOf(folder);
  const shipped = importedBy(folder, (path) => product.has(path));
  const tried = importedBy(folder, (path) => !product.has(path));
  const forTests = { ...root.devDependencies, ...devDependencies, ...dependencies };
  const missing = [...shipped].filter((used) => used !== name && dependencies[used] === undefined);
  const missingInTests = [...tried].filter((used) => used !== name && forTests[used] === undefined);
  const idle = Object.keys({ ...dependencies, ...devDependencies }).filter(
    (given) => !shipped.has(given) && !tried.has(given),
  );
  expectNone([
    ...missing.map(
      (used) => `${folder}/package.json: "dependencies" lacks ${used}, which its sources import`,
    ),
    ...missingInTests.map((used) => `${folder}/package.json: lacks ${used}, which its tests import`),
    ...idle.map((given) => `${folder}/package.json: ${given} is imported by none of its files`),
  ]);
});

test('the root has only tools that are used', () => {
  const imported = new Set(workspaces().flatMap((folder) => [...importedBy(folder, () => true)]));
  const idle = Object.keys(root.devDependencies ?? {}).filter((name) => {
    if (imported.has(name)) return false;
    const config = TOOLS[name];
    if (config !== undefined) return !projectFiles().includes(config);
    return !isNeededTypes(name, imported);
  });
  expectNone(
    idle.map((name) => `package.json: ${name} is neither imported nor one of the tools with a config file`),
  );
});

test('no package requires a newer Node than version 20 of the README', () => {
  const { packages }: { packages: Record<string, { engines?: { node?: string } }> } = JSON.parse(
    textOf('package-lock.json'),
  );
  expectNone(
    Object.entries(packages)
      .filter(([, { engines }]) => !takesNode20(engines?.node ?? '*'))
      .map(
        ([path, { engines }]) =>
          `package-lock.json: ${path} wants Node ${engines?.node}. Where it only ever runs under the Node that npm ci installs, as vitest does, take its "engines" out: npm keeps it so until the package changes`,
      ),
  );
});

test('no workspace has an install script', () => {
  const hooks = ['preinstall', 'install', 'postinstall', 'prepare'];
  expectNone(
    ['', ...workspaces()].flatMap((folder) =>
      hooks
        .filter((hook) => manifestOf(folder).scripts?.[hook] !== undefined)
        .map((hook) => `${folder}/package.json: no ${hook} script`),
    ),
  );
});

test('every workspace has a description, and only the client can be published', () => {
  expectNone(
    workspaces().flatMap((folder) => {
      const manifest: Manifest & { private?: boolean } = manifestOf(folder);
      const problems = [];
      const isPrivate = folder !== 'services/client';
      if ((manifest.private ?? false) !== isPrivate)
        problems.push(`${folder}/package.json: "private" must be ${isPrivate}`);
      if (!manifest.description) problems.push(`${folder}/package.json: "description" is missing`);
      return problems;
    }),
  );
});

test('package-lock.json names no registry host', () => {
  const lines = textOf('package-lock.json').split('\n');
  expectNone(
    lines.flatMap((line, i) =>
      /"resolved": "\w+:/.test(line) ? [`package-lock.json:${i + 1}: ${line.trim()} names a host`] : [],
    ),
  );
});

test('package-lock.json matches the package.json files', () => {
  const lock: { packages: Record<string, Manifest> } = JSON.parse(textOf('package-lock.json'));
  for (const folder of ['', ...workspaces()]) {
    const { dependencies, devDependencies, optionalDependencies } = manifestOf(folder);
    expect(
      lock.packages[folder],
      `package-lock.json: "${folder}" is not as in its package.json`,
    ).toMatchObject({
      ...(dependencies && { dependencies }),
      ...(devDependencies && { devDependencies }),
      ...(optionalDependencies && { optionalDependencies }),
    });
  }
});

test('package-lock.json has the packages of every platform', () => {
  const { packages }: { packages: Record<string, Manifest> } = JSON.parse(textOf('package-lock.json'));
  expectNone(
    Object.entries(packages)
      .filter(([folder]) => folder !== '')
      .flatMap(([folder, { optionalDependencies = {} }]) =>
        Object.keys(optionalDependencies)
          .filter((name) => !packages[`node_modules/${name}`] && !packages[`${folder}/node_modules/${name}`])
          .map((name) => `package-lock.json: ${folder} asks for ${name}, which is not there`),
      ),
  );
});

function importedBy(folder: string, counts: (path: string) => boolean): Set<string> {
  const packages = [...sources.values()]
    .filter(({ path }) => workspaceOf(path) === folder && counts(path))
    .flatMap(({ imports }) => imports.map(({ specifier }) => specifier))
    .filter((specifier) => !specifier.startsWith('.') && !specifier.startsWith('node:'))
    .map(packageOf);
  return new Set(packages);
}

/** True if `@types/x` is needed: a source imports x, and x has no types. */
function isNeededTypes(name: string, imported: ReadonlySet<string>): boolean {
  if (!name.startsWith('@types/')) return false;
  const typed = name.slice('@types/'.length).replace(/^(\w+)__/, '@$1/');
  if (!imported.has(typed)) return false;
  const { types, typings }: { types?: string; typings?: string } = JSON.parse(
    textOf(`node_modules/${typed}/package.json`),
  );
  return types === undefined && typings === undefined;
}

/** True if an alternative of the `engines` range includes version 20. */
function takesNode20(range: string): boolean {
  return range.split('||').some((alternative) => {
    const { sign = '', major = '' } =
      /^\s*(?<sign>[~^>=]*)\s*v?(?<major>\d+|\*)/.exec(alternative)?.groups ?? {};
    return major === '*' || (sign.startsWith('>') ? Number(major) <= 20 : Number(major) === 20);
  });
}
