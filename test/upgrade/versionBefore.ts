/** Checks out an earlier version into `.data/versions`, so that tests can start its processes. */
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, renameSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { failIfRequired } from '@questlog/runtime/process/testing/required';
import { startedWith } from '../e2e/product.ts';

/** Oldest supported commit, as the upgrade page names it. With the first release, this becomes the previous release. */
export const TRIED_BEFORE = '1c666a5';
export const VERSION_BEFORE = process.env['QUESTLOG_VERSION_BEFORE'] ?? TRIED_BEFORE;

export interface Checkout {
  /** File that starts the processes of this version. */
  readonly entry: string;
}

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const ARCHIVE_BYTES = 256 * 1024 * 1024;

/**
 * Checks out a commit and installs its packages, once for all test files and runs. Returns a reason if git does not have the
 * commit.
 * @throws Error if the packages cannot be installed, or if the commit is missing and `QUESTLOG_REQUIRE` names history.
 */
export function checkOut(commit: string): Checkout | { readonly lack: string } {
  const folder = join(ROOT, '.data/versions', commit);
  const lack = existsSync(folder) ? undefined : extract(commit, folder);
  return lack === undefined ? { entry: startedWith(folder).entry } : { lack };
}

/** Returns the reason if git does not have the commit. */
function extract(commit: string, folder: string): string | undefined {
  const archive = spawnSync('git', ['archive', '--format=tar', commit], {
    cwd: ROOT,
    maxBuffer: ARCHIVE_BYTES,
  });
  if (archive.status !== 0) {
    const message = archive.error?.message ?? archive.stderr.toString('utf8').trim();
    const lack = `git has no commit ${commit} here, as in a shallow clone (${message})`;
    failIfRequired('history', lack);
    return lack;
  }
  mkdirSync(dirname(folder), { recursive: true });
  const unfinished = mkdtempSync(`${folder}-`);
  done(spawnSync('tar', ['-x', '-C', unfinished], { input: archive.stdout }), 'tar');
  const install = ['ci', '--prefer-offline', '--no-audit', '--no-fund'];
  done(spawnSync('npm', install, { cwd: unfinished }), 'npm ci');
  try {
    renameSync(unfinished, folder);
  } catch (error) {
    // Another test file has checked out the commit at the same time.
    if (!existsSync(folder)) throw error;
    rmSync(unfinished, { recursive: true });
  }
  return undefined;
}

function done({ status, error, stderr }: ReturnType<typeof spawnSync>, what: string): void {
  if (status !== 0) throw new Error(`${what} failed: ${error?.message ?? stderr}`);
}
