/** Checks out an earlier version into a separate folder, so that a test can start its processes. */
import { spawnSync } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  symlinkSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { failIfRequired } from '@questlog/runtime/process/testing/required';
import { startedWith } from '../e2e/product.ts';

/** Oldest supported commit, as the upgrade page names it. With the first release, this becomes the previous release. */
export const TRIED_BEFORE = '1c666a5';
export const VERSION_BEFORE = process.env['QUESTLOG_VERSION_BEFORE'] ?? TRIED_BEFORE;

export interface Checkout {
  /** File that starts the processes of this version. */
  readonly entry: string;
  remove(): void;
}

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const ARCHIVE_BYTES = 256 * 1024 * 1024;

/**
 * Checks out a commit. Returns a reason if git does not have the commit.
 * @throws Error if the packages cannot be installed, or if the commit is missing and `QUESTLOG_REQUIRE` names history.
 */
export function checkOut(commit: string): Checkout | { readonly lack: string } {
  const archive = spawnSync('git', ['archive', '--format=tar', commit], {
    cwd: ROOT,
    maxBuffer: ARCHIVE_BYTES,
  });
  if (archive.status !== 0) {
    const message = archive.error?.message ?? archive.stderr.toString('utf8').trim();
    const lack = `git has no commit ${commit} here, as in a shallow clone (${message})`;
    failIfRequired('history', lack);
    return { lack };
  }
  const folder = mkdtempSync(join(tmpdir(), 'questlog-before-'));
  const remove = () => rmSync(folder, { recursive: true, force: true });
  try {
    done(spawnSync('tar', ['-x', '-C', folder], { input: archive.stdout }), 'tar');
    if (hasSamePackages(folder)) linkPackages(folder);
    else
      done(
        spawnSync('npm', ['ci', '--prefer-offline', '--no-audit', '--no-fund'], { cwd: folder }),
        'npm ci',
      );
  } catch (error) {
    remove();
    throw error;
  }
  return { entry: startedWith(folder).entry, remove };
}

function done({ status, error, stderr }: ReturnType<typeof spawnSync>, what: string): void {
  if (status !== 0) throw new Error(`${what} failed: ${error?.message ?? stderr}`);
}

/** Returns true if this checkout has all packages of the other version, in the same versions. */
function hasSamePackages(folder: string): boolean {
  const here = lockedVersions(ROOT);
  return [...lockedVersions(folder)].every(([path, version]) => here.get(path) === version);
}

/** Returns the locked versions by package folder. */
function lockedVersions(folder: string): Map<string, string | undefined> {
  const { packages }: { packages: Record<string, { version?: string; link?: true }> } = JSON.parse(
    readFileSync(join(folder, 'package-lock.json'), 'utf8'),
  );
  return new Map(
    Object.entries(packages).flatMap(([path, { version, link }]) =>
      path.startsWith('node_modules/') && link !== true ? [[path, version]] : [],
    ),
  );
}

/** Links the packages of this checkout, except the workspaces. */
function linkPackages(folder: string): void {
  const [from, to] = [join(ROOT, 'node_modules'), join(folder, 'node_modules')];
  mkdirSync(join(to, OWN_SCOPE), { recursive: true });
  for (const name of readdirSync(from))
    if (name !== OWN_SCOPE && !name.startsWith('.')) symlinkSync(join(from, name), join(to, name));
  for (const name of readdirSync(join(from, OWN_SCOPE))) {
    const target = readlinkSync(join(from, OWN_SCOPE, name));
    if (existsSync(join(to, OWN_SCOPE, target))) symlinkSync(target, join(to, OWN_SCOPE, name));
  }
}

const OWN_SCOPE = '@questlog';
