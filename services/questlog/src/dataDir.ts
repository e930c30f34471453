/** The data folder. Only its owner can access the folder, because the folder contains the payloads of all tenants. */
import { chmodSync, existsSync, mkdirSync, readdirSync, statfsSync, statSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { messageOf, StartRefused } from '@questlog/runtime/process/errors';
import type { BoundedResource } from '@questlog/runtime/process/metrics';

const SUBFOLDERS = ['log', 'clickhouse', 'uploads'] as const;
export const BACKUPS = 'backups';
export const UNFINISHED_RESTORE = 'unfinished-restore';
const OWN_NAMES = /^(log|clickhouse|uploads|backups|dev-credentials\..*)$/;
const GROUP_AND_OTHERS = 0o077;

/** Creates the data folder and the subfolders of the embedded engines. Removes the access of other users. */
export function openDataDir(setting: string, subfolders: readonly (typeof SUBFOLDERS)[number][]): string {
  const dataDir = resolve(setting);
  if (existsSync(join(dataDir, UNFINISHED_RESTORE))) {
    throw new StartRefused(`a restore into ${dataDir} was interrupted: empty the folder and restore again`);
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

export function hasEmbeddedLog(dataDir: string): boolean {
  const subfolder = join(dataDir, 'log');
  return statSync(subfolder, { throwIfNoEntry: false }) !== undefined && readdirSync(subfolder).length > 0;
}

const MIB = 1024 * 1024;
/** Minimum free disk space. Questlog warns if less space is free. On a small disk, the minimum is one twentieth of the disk. */
const MIN_FREE_BYTES = 1024 * MIB;

export function minFreeBytesOf(bytes: number): number {
  return Math.min(MIN_FREE_BYTES, bytes / 20);
}

export function reservedBytesOf(folder: string): number {
  return minFreeBytesOf(diskOf(folder).bytes);
}

/** Returns the disk of the data folder as a bounded resource. The free space is the difference between the limit and the use. */
export function diskResource(dataDir: string): BoundedResource {
  const limit = diskOf(dataDir).bytes;
  return { resource: 'data_folder_bytes', limit, used: () => limit - diskOf(dataDir).freeBytes };
}

function diskOf(folder: string): Readonly<Record<'bytes' | 'freeBytes', number>> {
  const { blocks, bavail, bsize } = statfsSync(folder);
  return { bytes: blocks * bsize, freeBytes: bavail * bsize };
}

export function lowDiskWarning(dataDir: string): string | undefined {
  const { freeBytes: free } = diskOf(dataDir);
  if (free >= reservedBytesOf(dataDir)) return undefined;
  return `only ${Math.floor(free / MIB)} MiB are free for ${dataDir}: free disk space; events are rejected if the disk is full`;
}

/** Creates a folder and its parents. Node's `mkdir` with `recursive` never returns for a folder inside `/proc`. */
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
 * Restricts the access to the files in a folder first, and the access to the folder last. If the process is killed in between,
 * the folder is still unrestricted, so the next start repeats the work.
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
  // Ignores a missing file, because another process can have removed it. If the log is missing, opening the log fails later
  // with a clear error.
  if (mode !== undefined) chmodSync(path, mode & 0o700);
}
