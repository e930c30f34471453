/** A checkout of an earlier version in a folder of its own, whose processes a test starts beside this one's. */
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
import { startedWith } from '../e2e/product.ts';

/** No release has a tag yet: the oldest commit that the documents for operators name. A release puts the one before it here. */
export const TRIED_BEFORE = '1c666a5';
export const VERSION_BEFORE = process.env['QUESTLOG_VERSION_BEFORE'] ?? TRIED_BEFORE;

export interface Checkout {
  /** The file that starts its processes. */
  readonly entry: string;
  remove(): void;
}

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const ARCHIVE_BYTES = 256 * 1024 * 1024;

/**
 * @returns why not, where git does not have the commit.
 * @throws where its packages cannot be installed, or `QUESTLOG_REQUIRE` asks for history that is not there.
 */
export function checkOut(commit: string): Checkout | { readonly lack: string } {
  const archive = spawnSync('git', ['archive', '--format=tar', commit], {
    cwd: ROOT,
    maxBuffer: ARCHIVE_BYTES,
  });
  if (archive.status !== 0) {
    const said = archive.error?.message ?? archive.stderr.toString('utf8').trim();
    const lack = `git has no commit ${commit} here, as in a shallow clone (${said})`;
    if (/\bhistory\b/.test(process.env['QUESTLOG_REQUIRE'] ?? ''))
      throw new Error(`QUESTLOG_REQUIRE asks for history, but ${lack}`);
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

/** Whether everything that the version asks for is installed here, of the same version. */
function hasSamePackages(folder: string): boolean {
  const here = lockedVersions(ROOT);
  return [...lockedVersions(folder)].every(([path, version]) => here.get(path) === version);
}

/** By the folder of the package. */
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

/** All of this checkout's packages but the workspaces, which are its own. */
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
