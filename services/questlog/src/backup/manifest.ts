/** Manifest of a backup, which lists every file with its size and SHA-256. The manifest is written last. */
import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { open, readdir, readFile, stat } from 'node:fs/promises';
import { dirname, join, relative, sep } from 'node:path';
import { messageOf, StartRefused } from '@questlog/runtime/process/errors';
import Type, { type Static } from 'typebox';
import { Compile } from 'typebox/compile';
import { EMBEDDED_CREDENTIALS } from '../credentials.ts';

export const PARTS = { log: 'log/questlog.db', clickhouse: 'clickhouse.tar', uploads: 'uploads' } as const;

const FILE = 'manifest.json';
/** Version of the backup's format. Older versions of Questlog cannot restore a backup with a larger version. */
const FORMAT = 1;

const Manifest = Type.Object({
  format: Type.Integer(),
  id: Type.String(),
  /** Log id of the deployment that created the backup. Several deployments can share a folder of backups. */
  logId: Type.String(),
  version: Type.String(),
  startedAt: Type.String(),
  endedAt: Type.String(),
  files: Type.Record(Type.String(), Type.Object({ bytes: Type.Integer(), sha256: Type.String() })),
});
export type Manifest = Static<typeof Manifest>;

const validator = Compile(Manifest);

export async function writeManifest(
  folder: string,
  header: Omit<Manifest, 'format' | 'files'>,
  signal: AbortSignal,
): Promise<Manifest> {
  const files: Manifest['files'] = {};
  for (const path of await filesIn(folder)) {
    signal.throwIfAborted();
    files[path] = {
      bytes: (await stat(join(folder, path))).size,
      sha256: await sha256Of(join(folder, path), signal),
    };
  }
  await syncTree(folder, signal);
  const manifest = { format: FORMAT, ...header, files };
  const file = await open(join(folder, FILE), 'wx', 0o600);
  try {
    await file.writeFile(JSON.stringify(manifest));
    await file.sync();
  } finally {
    await file.close();
  }
  await syncPath(folder);
  return manifest;
}

/** Reads a manifest. Throws `StartRefused` if the manifest is missing or invalid. */
export async function readManifest(folder: string): Promise<Manifest> {
  const text = await readFile(join(folder, FILE), 'utf8').catch((cause: unknown) => {
    throw new StartRefused(`${folder} is not a complete backup: it has no ${FILE}`, { cause });
  });
  const parsed = parse(text);
  const format = Number(Object(parsed).format);
  if (format > FORMAT) {
    throw new StartRefused(
      `a newer version of Questlog created the backup ${folder} (format ${format}; this version reads ${FORMAT})`,
    );
  }
  if (!validator.Check(parsed))
    throw new StartRefused(`${folder} is not a complete backup: its ${FILE} is damaged`);
  return parsed;
}

/** Verifies the size and SHA-256 of every file. Throws `StartRefused` that names the first wrong file. */
export async function checkFiles(folder: string, { files }: Manifest): Promise<void> {
  const reject = (what: string): never => {
    throw new StartRefused(`the backup ${folder} was changed: ${what}`);
  };
  // Only regular files inside the folder are read, because a forged manifest could contain any path.
  const present = new Set(await filesIn(folder));
  for (const path of [PARTS.log, PARTS.clickhouse]) {
    if (!Object.hasOwn(files, path)) reject(`its ${FILE} does not list ${path}`);
  }
  for (const [path, { bytes, sha256 }] of Object.entries(files)) {
    if (!present.has(path)) reject(`${path} is missing`);
    if (!isBackupFile(path)) reject(`${path} is not a file of a backup`);
    const { size } = await stat(join(folder, path));
    if (size !== bytes) reject(`${path} has ${size} bytes instead of ${bytes}`);
    if ((await sha256Of(join(folder, path))) !== sha256) reject(`${path} has other content`);
  }
  const extra = [...present].find((path) => path !== FILE && !Object.hasOwn(files, path));
  if (extra !== undefined) reject(`${extra} was added`);
}

/** True if the path is allowed in a backup. Restoring a file with another path could overwrite files of the data folder. */
function isBackupFile(path: string): boolean {
  if (path.startsWith(`${PARTS.uploads}/`)) return true;
  return [PARTS.log, PARTS.clickhouse, ...EMBEDDED_CREDENTIALS].includes(path);
}

export function bytesOf({ files }: Manifest): number {
  return Object.values(files).reduce((sum, { bytes }) => sum + bytes, 0);
}

/** Returns the paths of all files relative to the folder, with `/` as the separator. */
export async function filesIn(folder: string): Promise<string[]> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile());
  return files.map((entry) => relative(folder, join(entry.parentPath, entry.name)).split(sep).join('/'));
}

/** Flushes the folder, its contents, and its parent folder to the disk. */
export async function syncTree(folder: string, signal?: AbortSignal): Promise<void> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  for (const entry of entries) {
    signal?.throwIfAborted();
    await syncPath(join(entry.parentPath, entry.name));
  }
  await syncPath(folder);
  await syncPath(dirname(folder));
}

export async function syncPath(path: string): Promise<void> {
  const file = await open(path, 'r');
  // The error is ignored on Windows, because Windows cannot flush a folder to the disk.
  await file.sync().catch((error: unknown) => {
    if (process.platform !== 'win32') throw error;
  });
  await file.close();
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    return messageOf(error);
  }
}

async function sha256Of(path: string, signal?: AbortSignal): Promise<string> {
  const hash = createHash('sha256');
  for await (const piece of createReadStream(path, { ...(signal && { signal }) })) hash.update(piece);
  return hash.digest('hex');
}
