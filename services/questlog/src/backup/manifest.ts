/**
 * What makes a folder of files a backup: a manifest that names every one with its size and SHA-256. It is written last, when
 * all of them are on the disk; a folder without it, or whose files are others, is none.
 */
import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { open, readdir, readFile, stat } from 'node:fs/promises';
import { dirname, join, relative, sep } from 'node:path';
import { messageOf, StartRefused } from '@questlog/runtime/process/errors';
import Type, { type Static } from 'typebox';
import { Compile } from 'typebox/compile';
import { EMBEDDED_CREDENTIALS } from '../credentials.ts';

/** The names of what is in a backup, and in a data folder. */
export const PARTS = { log: 'log/questlog.db', clickhouse: 'clickhouse.tar', uploads: 'uploads' } as const;

const FILE = 'manifest.json';
/** Raised when an older version could not restore it. */
const FORMAT = 1;

const Manifest = Type.Object({
  format: Type.Integer(),
  id: Type.String(),
  /** Whose it is: deployments may share a folder of backups. */
  logId: Type.String(),
  /** Of the Questlog that made it. */
  version: Type.String(),
  startedAt: Type.String(),
  endedAt: Type.String(),
  files: Type.Record(Type.String(), Type.Object({ bytes: Type.Integer(), sha256: Type.String() })),
});
export type Manifest = Static<typeof Manifest>;

const validator = Compile(Manifest);

/** Writes the manifest, once everything in the folder is on the disk. */
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

/** @throws StartRefused where there is none that this version can read. */
export async function readManifest(folder: string): Promise<Manifest> {
  const text = await readFile(join(folder, FILE), 'utf8').catch((cause: unknown) => {
    throw new StartRefused(`${folder} is no whole backup: it has no ${FILE}`, { cause });
  });
  const parsed = parse(text);
  const format = Number(Object(parsed).format);
  if (format > FORMAT) {
    throw new StartRefused(
      `the backup ${folder} was made by a newer Questlog (format ${format}; this one reads ${FORMAT})`,
    );
  }
  if (!validator.Check(parsed))
    throw new StartRefused(`${folder} is no whole backup: its ${FILE} is damaged`);
  return parsed;
}

/** @throws StartRefused naming the first file that is not as it was. */
export async function checkFiles(folder: string, { files }: Manifest): Promise<void> {
  const reject = (what: string): never => {
    throw new StartRefused(`the backup ${folder} is not as it was made: ${what}`);
  };
  // Of real files in it alone: a manifest may name any path, and a link may lead anywhere.
  const present = new Set(await filesIn(folder));
  for (const path of [PARTS.log, PARTS.clickhouse]) {
    if (!Object.hasOwn(files, path)) reject(`its ${FILE} does not name ${path}`);
  }
  for (const [path, { bytes, sha256 }] of Object.entries(files)) {
    if (!present.has(path)) reject(`${path} is missing`);
    if (!isBackupFile(path)) reject(`${path} is nothing that a backup has`);
    const { size } = await stat(join(folder, path));
    if (size !== bytes) reject(`${path} has ${size} bytes, and had ${bytes}`);
    if ((await sha256Of(join(folder, path))) !== sha256) reject(`${path} has other bytes`);
  }
  const extra = [...present].find((path) => path !== FILE && !Object.hasOwn(files, path));
  if (extra !== undefined) reject(`${extra} was not in it`);
}

/** Whether a backup has such a file. Anything else would come into the data folder as somebody's own, as into ClickHouse's. */
function isBackupFile(path: string): boolean {
  if (path.startsWith(`${PARTS.uploads}/`)) return true;
  return [PARTS.log, PARTS.clickhouse, ...EMBEDDED_CREDENTIALS].includes(path);
}

export function bytesOf({ files }: Manifest): number {
  return Object.values(files).reduce((sum, { bytes }) => sum + bytes, 0);
}

/** With `/` between the parts of a path, on any machine. */
export async function filesIn(folder: string): Promise<string[]> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile());
  return files.map((entry) => relative(folder, join(entry.parentPath, entry.name)).split(sep).join('/'));
}

/** Every file and folder in it is on the disk, and so is its own name. */
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
  // Windows flushes no folders.
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
