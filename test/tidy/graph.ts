/** Resolves imports across the workspaces. */
import { posix } from 'node:path';
import { manifestOf, workspaces } from './projectFiles.ts';
import type { Import, Source } from './sources.ts';

/** Returns the path of the project's file that an import names. Undefined if the import names a package or a Node module. */
export function targetOf(from: string, specifier: string): string | undefined {
  if (specifier.startsWith('.')) return posix.join(posix.dirname(from), specifier);
  const folder = workspaceNamed(packageOf(specifier));
  if (folder === undefined) return undefined;
  const subpath = specifier.slice(packageOf(specifier).length + 1);
  const isFixture = subpath.startsWith('fixtures/');
  return `${folder}/${isFixture ? subpath : `src/${subpath}`}.ts`;
}

/** Returns the npm package or the `node:…` module of a specifier that is not relative. */
export function packageOf(specifier: string): string {
  if (specifier.startsWith('node:')) return specifier;
  return specifier
    .split('/')
    .slice(0, specifier.startsWith('@') ? 2 : 1)
    .join('/');
}

export interface Walk {
  readonly sources: ReadonlyMap<string, Source>;
  follow(from: Source, imported: Import): boolean;
  /** True if string literals are followed too, for example `new URL('./writer.ts', import.meta.url)`. */
  readonly throughLiterals: boolean;
}

/** Returns all files that are reachable from the entries, including the entries. */
export function reached(entries: readonly string[], walk: Walk): ReadonlySet<string> {
  const found = new Set<string>();
  const waiting = [...entries];
  for (let path = waiting.pop(); path !== undefined; path = waiting.pop()) {
    const source = walk.sources.get(path);
    if (source === undefined || found.has(path)) continue;
    found.add(path);
    for (const imported of source.imports) {
      const target = targetOf(path, imported.specifier);
      if (target !== undefined && walk.follow(source, imported)) waiting.push(target);
    }
    if (walk.throughLiterals) waiting.push(...namedFiles(source));
  }
  return found;
}

function namedFiles({ path, literals, imports }: Source): string[] {
  const imported = new Set(imports.map(({ specifier }) => specifier));
  return literals
    .filter(({ text }) => text.endsWith('.ts') && !imported.has(text))
    .flatMap(({ text }) => [posix.join(posix.dirname(path), text), posix.normalize(text)]);
}

const folders = new Map(workspaces().map((folder) => [manifestOf(folder).name, folder]));

function workspaceNamed(name: string): string | undefined {
  return folders.get(name);
}
