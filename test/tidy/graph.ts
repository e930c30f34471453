/** Who imports whom, across the workspaces. */
import { posix } from 'node:path';
import { manifestOf, workspaces } from './house.ts';
import type { Import, Source } from './sources.ts';

/** The project's file that an import means; undefined where it means a package or a module of Node. */
export function targetOf(from: string, specifier: string): string | undefined {
  if (specifier.startsWith('.')) return posix.join(posix.dirname(from), specifier);
  const folder = workspaceNamed(packageOf(specifier));
  if (folder === undefined) return undefined;
  const subpath = specifier.slice(packageOf(specifier).length + 1);
  const isFixture = subpath.startsWith('fixtures/');
  return `${folder}/${isFixture ? subpath : `src/${subpath}`}.ts`;
}

/** The npm package, or `node:…`, that a specifier that is not relative belongs to. */
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
  /** Also go to files that a string names, as `new URL('./writer.ts', import.meta.url)` does. */
  readonly throughLiterals: boolean;
}

/** All files that can be come to from the entries, themselves included. */
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
