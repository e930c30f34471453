/** Copies the sources, so that a test can run changed code. */
import { cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readlinkSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { projectFiles, ROOT, workspaces } from '../tidy/projectFiles.ts';

/** Copies the sources. The copy has its own workspaces, and shares all other packages by links. */
export function copiedTree(): string {
  const copy = mkdtempSync(join(tmpdir(), 'questlog-planted-'));
  for (const path of projectFiles()) cpSync(join(ROOT, path), join(copy, path));
  for (const folder of ['', ...workspaces()])
    linkPackages(join(ROOT, folder, 'node_modules'), join(copy, folder, 'node_modules'));
  return copy;
}

function linkPackages(from: string, to: string): void {
  if (!existsSync(from)) return;
  mkdirSync(to, { recursive: true });
  for (const name of readdirSync(from)) {
    const isOurs = name === '@questlog';
    const isCache = name.startsWith('.') && name !== '.bin';
    if (!isOurs && !isCache) symlinkSync(join(from, name), join(to, name));
    if (!isOurs) continue;
    mkdirSync(join(to, name));
    // The links are relative, so they point to the workspaces of the copy.
    for (const one of readdirSync(join(from, name)))
      symlinkSync(readlinkSync(join(from, name, one)), join(to, name, one));
  }
}
