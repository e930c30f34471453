/** A name means one thing: files within their workspace, exported types within the product. */
import { posix } from 'node:path';
import { test } from 'vitest';
import { isTest, projectFiles, workspaceOf } from './house.ts';
import { parseSources } from './sources.ts';
import { expectNone } from './violations.ts';

/** Parsed here, because on a busy machine it can take longer than a test may. */
const sources = parseSources();
/** Names that say what a file is to its folder: several folders have one. */
const OF_A_FOLDER = ['main.ts', 'deps.ts', 'index.ts', 'rows.ts', 'writer.ts'];
/** The adapters of one port, whose files and types mirror each other. */
const MIRRORS = /^services\/runtime\/src\/log\/(embedded|kafka)\//;

test('a file’s name is its own within its workspace', () => {
  const files = projectFiles()
    .filter((path) => /^(schemas|services)\/.*\.ts$/.test(path))
    .map((path) => ({ path, name: posix.basename(path) }));
  expectNone(
    alike(
      files.filter(({ name }) => !OF_A_FOLDER.includes(name)),
      isSameWorkspace,
    ).map(({ name, paths }) => `${paths}: ${name} names several files; rename all but one`),
  );
});

test('an exported type’s name is its own within its workspace, and no other’s in schemas', () => {
  const types = [...sources.values()]
    .filter(({ path }) => /^(schemas|services)\//.test(path) && !isTest(path))
    .flatMap(({ path, exportedTypes }) => exportedTypes.map(({ text }) => ({ path, name: text })));
  expectNone(
    alike(types, (one, other) => [one, other].some(isInSchemas) || isSameWorkspace(one, other)).map(
      ({ name, paths }) => `${paths}: "${name}" means several things; rename all but one`,
    ),
  );
});

interface Named {
  readonly path: string;
  readonly name: string;
}

/** Names of things that are near each other, unless they mirror each other. */
function alike(
  all: readonly Named[],
  isNear: (one: Named, other: Named) => boolean,
): { name: string; paths: string }[] {
  const isAlike = (one: Named, other: Named) => one !== other && isNear(one, other) && !isMirror(one, other);
  return [...Map.groupBy(all, ({ name }) => name)].flatMap(([name, those]) => {
    const shared = those.filter((one) => those.some((other) => isAlike(one, other)));
    return shared.length === 0 ? [] : [{ name, paths: shared.map(({ path }) => path).join(', ') }];
  });
}

function isMirror(one: Named, other: Named): boolean {
  const [adapter, otherAdapter] = [MIRRORS.exec(one.path)?.[1], MIRRORS.exec(other.path)?.[1]];
  return adapter !== undefined && otherAdapter !== undefined && adapter !== otherAdapter;
}

function isSameWorkspace(one: Named, other: Named): boolean {
  return workspaceOf(one.path) === workspaceOf(other.path);
}

function isInSchemas({ path }: Named): boolean {
  return workspaceOf(path) === 'schemas';
}
