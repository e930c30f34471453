/** Lists and reads the files of a fresh clone: all files on the disk except the files that `.gitignore` names. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

export const ROOT = fileURLToPath(new URL('../..', import.meta.url));

/** Returns the paths from the root, with `/`, sorted. */
export function projectFiles(): string[] {
  const ignored = ignoredNames();
  return filesUnder('', ignored).sort();
}

export function textOf(path: string): string {
  return readFileSync(join(ROOT, path), 'utf8');
}

/** Fields of a `package.json` that the tests read. */
export interface Manifest {
  readonly name: string;
  readonly description?: string;
  readonly scripts?: Readonly<Record<string, string>>;
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly devDependencies?: Readonly<Record<string, string>>;
  readonly optionalDependencies?: Readonly<Record<string, string>>;
}

/** @param folder path of a workspace; '' for the root. */
export function manifestOf(folder: string): Manifest {
  return JSON.parse(textOf(folder === '' ? 'package.json' : `${folder}/package.json`));
}

/** Returns the folders of the npm workspaces. */
export function workspaces(): string[] {
  const services = readdirSync(join(ROOT, 'services'), { withFileTypes: true });
  return [
    'schemas',
    ...services.filter((entry) => entry.isDirectory()).map(({ name }) => `services/${name}`),
    'test',
  ];
}

/** Returns the workspace of a file. Undefined if the file is in no workspace. */
export function workspaceOf(path: string): string | undefined {
  return workspaces().find((folder) => path.startsWith(`${folder}/`));
}

/** True if the file is the entry of a process, of a page, or of the client package. */
export function isMain(path: string): boolean {
  return /^services\/(\w+\/(?:src|ui)\/main|client\/src\/(client|indexedDb|file|automatic))\.ts$/.test(path);
}

export function isTest(path: string): boolean {
  return path.endsWith('.test.ts');
}

/** Returns the 1-based line of a position in a text. */
export function lineAt(text: string, position: number): number {
  return text.slice(0, position).split('\n').length;
}

function filesUnder(folder: string, ignored: RegExp): string[] {
  const entries = readdirSync(join(ROOT, folder), { withFileTypes: true });
  return entries.flatMap((entry) => {
    const path = folder === '' ? entry.name : `${folder}/${entry.name}`;
    if (ignored.test(entry.name)) return [];
    if (entry.isDirectory()) return filesUnder(path, ignored);
    return entry.isFile() ? [path] : [];
  });
}

/** Supports the two forms that this `.gitignore` uses: `name/` and `*.ending`. */
function ignoredNames(): RegExp {
  const lines = textOf('.gitignore').split('\n');
  const patterns = lines
    .filter((line) => line.trim() !== '' && !line.startsWith('#'))
    .map((line) => {
      if (!/^(\*\.\w+|[\w.-]+\/)$/.test(line)) throw new Error(`.gitignore: house.ts cannot read "${line}"`);
      const name = line.replace(/\/$/, '').replaceAll('.', '\\.');
      return name.startsWith('*') ? `.${name}` : name;
    });
  return new RegExp(`^(${['\\.git', ...patterns].join('|')})$`);
}
