/**
 * The folder of everything that Questlog keeps on this machine. The payloads of every tenant lie in it, so that it is its
 * owner's alone.
 */
import { chmodSync, existsSync, mkdirSync, readdirSync, statfsSync, statSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { messageOf, StartRefused } from '@questlog/runtime/process/errors';

const SUBFOLDERS = ['log', 'clickhouse', 'uploads'] as const;
/** The folder of backups, unless a setting names another. */
export const BACKUPS = 'backups';
/** A file that is there while a restore fills the folder. */
export const UNFINISHED_RESTORE = 'unfinished-restore';
const OWN_NAMES = /^(log|clickhouse|uploads|backups|dev-credentials\..*)$/;
const GROUP_AND_OTHERS = 0o077;

/**
 * @param subfolders what is embedded in this process, each in a folder of its own.
 * @throws StartRefused when it cannot be made or holds something else.
 */
export function openDataDir(setting: string, subfolders: readonly (typeof SUBFOLDERS)[number][]): string {
  const dataDir = resolve(setting);
  if (existsSync(join(dataDir, UNFINISHED_RESTORE))) {
    throw new StartRefused(`a restore into ${dataDir} broke off: empty the folder and restore again`);
  }
  try {
    for (const path of [dataDir, ...subfolders.map((subfolder) => join(dataDir, subfolder))])
      makeFolder(path);
    restrictAccess(dataDir);
  } catch (cause) {
    throw new StartRefused(`QUESTLOG_DATA_DIR: ${dataDir} cannot be written: ${messageOf(cause)}`, { cause });
  }
  return dataDir;
}

/** Whether a start on the embedded log has been here. */
export function hasEmbeddedLog(dataDir: string): boolean {
  const subfolder = join(dataDir, 'log');
  return statSync(subfolder, { throwIfNoEntry: false }) !== undefined && readdirSync(subfolder).length > 0;
}

const MIB = 1024 * 1024;
/** Below it a disk is full soon; and below a twentieth of a small one. */
const MIN_FREE_BYTES = 1024 * MIB;

/** What is to stay free of a disk of so many bytes. */
export function minFreeBytesOf(bytes: number): number {
  return Math.min(MIN_FREE_BYTES, bytes / 20);
}

/** Returns how many bytes must stay free on the folder's disk. */
export function reservedBytesOf(folder: string): number {
  const { blocks, bsize } = statfsSync(folder);
  return minFreeBytesOf(blocks * bsize);
}

/** A sentence when there is little room. */
export function lowDiskWarning(dataDir: string): string | undefined {
  const { bavail, bsize } = statfsSync(dataDir);
  const free = bavail * bsize;
  if (free >= reservedBytesOf(dataDir)) return undefined;
  return `${Math.floor(free / MIB)} MiB are free for ${dataDir}: make room, events are refused once it is full`;
}

/**
 * With its parents. Node's own `recursive` never returns where a folder that exists answers ENOENT for its children, as
 * `/proc` does, and on a read-only disk it names the wrong cause.
 */
function makeFolder(path: string): void {
  const first = failureOf(path);
  if (first === undefined) return;
  if (codeOf(first) === 'ENOENT' && dirname(path) !== path) {
    makeFolder(dirname(path));
    const second = failureOf(path);
    if (second !== undefined) throw second;
  } else if (codeOf(first) !== 'EEXIST' || !statSync(path).isDirectory()) {
    throw first;
  }
}

function failureOf(path: string): unknown {
  try {
    mkdirSync(path, { mode: 0o700 });
    return undefined;
  } catch (error) {
    return error;
  }
}

function codeOf(error: unknown): unknown {
  return error instanceof Error && 'code' in error ? error.code : undefined;
}

/**
 * What an older version, or the umask of a shell, left open. A folder is closed after what is in it: a closed one is done.
 * Where the folder is not ours alone (it was given as `/tmp`, or is a volume's top) only what we have in it is closed.
 */
function restrictAccess(dataDir: string): void {
  const names = readdirSync(dataDir);
  for (const subfolder of SUBFOLDERS.filter(
    (subfolder) => names.includes(subfolder) && isOpenToOthers(join(dataDir, subfolder)),
  )) {
    for (const entry of readdirSync(join(dataDir, subfolder), { recursive: true, withFileTypes: true })) {
      if (!entry.isSymbolicLink()) restrictToOwner(join(entry.parentPath, entry.name));
    }
    restrictToOwner(join(dataDir, subfolder));
  }
  const isOurs = names.every((name) => OWN_NAMES.test(name)) && statSync(dataDir).uid === process.getuid?.();
  if (isOurs && isOpenToOthers(dataDir)) restrictToOwner(dataDir);
}

function isOpenToOthers(path: string): boolean {
  return (statSync(path).mode & GROUP_AND_OTHERS) !== 0;
}

function restrictToOwner(path: string): void {
  const mode = statSync(path, { throwIfNoEntry: false })?.mode;
  // What is gone was another process's, which holds this folder: opening the log will say so.
  if (mode !== undefined) chmodSync(path, mode & 0o700);
}
