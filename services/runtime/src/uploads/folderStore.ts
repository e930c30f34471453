/** Stores uploaded files in a local folder. A second file with the suffix `.json` contains the description. */
import { randomBytes, randomUUID } from 'node:crypto';
import { constants } from 'node:fs';
import {
  type FileHandle,
  link,
  mkdir,
  open,
  readdir,
  readFile,
  rename,
  rmdir,
  stat,
  statfs,
  unlink,
  writeFile,
} from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { canonicalUuid, isUuidV7 } from '@questlog/schemas/uuid';
import { Rejected } from '../http/rejected.ts';
import { Unavailable } from '../process/errors.ts';
import { KeyedMutex } from '../process/keyedMutex.ts';
import { uploadPath } from './core/uploadAddress.ts';
import { parseDescription, storageKey, type UploadKey } from './core/uploadKey.ts';
import type { UploadStore } from './uploadStore.ts';

const FOLDER_MODE = 0o700;
const FILE_MODE = 0o600;
/** Name of the subfolder for files that are not complete. The subfolder is emptied when the process starts. */
const INCOMING = 'incoming';
const WRITES = 'writes';
const SIGNING_KEY = 'signing-key';
const SIGNING_KEY_BYTES = 32;
const DESCRIPTION = '.json';
const COMPARED_BYTES = 64 * 1024;

/** Bytes of disk space that uploads must leave free. Otherwise, anyone with the token of a game could fill the disk. */
const RESERVED_BYTES = 1024 * 1024 * 1024;
const RESERVED_SHARE = 0.1;
/** Bytes after which a file is flushed. A single flush of a large file would block the log's disk for too long. */
const FLUSH_INTERVAL_BYTES = 1024 * 1024;

export interface FolderStoreOptions {
  readonly folder: string;
  /** Key that signs upload addresses. If the key is empty, the store generates a key at the first start. */
  readonly signingKey: string;
}

export async function openFolderStore({ folder, signingKey }: FolderStoreOptions): Promise<UploadStore> {
  const incoming = join(folder, INCOMING);
  await mkdir(incoming, { recursive: true, mode: FOLDER_MODE });
  // Removes incomplete files of earlier runs. No other process uses this folder.
  for (const name of await readdir(incoming)) await unlink(join(incoming, name)).catch(undefinedIfMissing);
  const key = signingKey === '' ? await persistedKey(join(folder, SIGNING_KEY)) : Buffer.from(signingKey);
  const files = new UploadFiles(folder);
  const { pathOf } = files;
  return {
    isSizeNeeded: false,
    describe: (of, description) =>
      withDiskErrors(async () => {
        await checkFreeSpace(folder);
        await files.describe(of, JSON.stringify(description));
      }),
    address: async (target, baseUrl) => baseUrl + uploadPath(target, key),
    find: (of) =>
      withDiskErrors(async () => {
        const text = await readFile(pathOf(of) + DESCRIPTION, 'utf8').catch(undefinedIfMissing);
        if (text === undefined) return undefined;
        const bytes = await stat(pathOf(of)).catch(undefinedIfMissing);
        return { description: parseDescription(text), sizeBytes: bytes?.size };
      }),
    read: (of) =>
      withDiskErrors(async () => {
        const file = await open(pathOf(of), constants.O_RDONLY).catch(undefinedIfMissing);
        if (file === undefined) throw new Rejected('not_found', 'the upload was removed just now');
        return file.createReadStream();
      }),
    list: (day) => uploadsOf(folder, day),
    remove: (of) => withDiskErrors(() => files.remove(of)),
    receiver: {
      signingKey: key,
      receive: (of, bytes) => withDiskErrors(() => files.receive(of, bytes)),
    },
  };
}

class UploadFiles {
  readonly #folder: string;
  /** Allows one disk write at a time, because the log uses the same disk, and decompression uses the same libuv threads. */
  readonly #writes = new KeyedMutex();

  constructor(folder: string) {
    this.#folder = folder;
  }

  readonly pathOf = (key: UploadKey): string => join(this.#folder, storageKey(key));

  /**
   * Writes a description, but does not flush the file to the disk. `receive` flushes the description together with the uploaded
   * file, because a separate flush would delay events.
   */
  async describe(key: UploadKey, text: string): Promise<void> {
    const path = this.pathOf(key);
    await mkdir(dirname(path), { recursive: true, mode: FOLDER_MODE });
    await this.#withTemporaryFile(key, async (temporary) => {
      await writeFile(temporary, text, { flag: 'wx', mode: FILE_MODE });
      await rename(temporary, path + DESCRIPTION);
    });
  }

  /** Stores the bytes of a file, and returns their number. The bytes and the file's description are flushed to the disk. */
  async receive(key: UploadKey, chunks: AsyncIterable<Buffer>): Promise<number> {
    const path = this.pathOf(key);
    const description = await open(path + DESCRIPTION, constants.O_RDONLY).catch(undefinedIfMissing);
    if (description === undefined) throw uploadRemoved();
    try {
      return await this.#withTemporaryFile(key, async (temporary) => {
        const file = await open(temporary, 'wx', FILE_MODE);
        try {
          const sizeBytes = await this.#fill(file, chunks);
          await this.#writes.run(WRITES, async () => {
            await file.datasync();
            await description.datasync();
            // Stores no bytes if the description was removed during the upload, because each file needs a description.
            if ((await stat(path + DESCRIPTION).catch(undefinedIfMissing)) === undefined)
              throw uploadRemoved();
            await keepFirst(temporary, path);
            for (let folder = path; folder !== this.#folder; ) {
              folder = dirname(folder);
              await syncFolder(folder);
            }
          });
          return sizeBytes;
        } finally {
          await file.close();
        }
      });
    } finally {
      await description.close();
    }
  }

  /** Removes the file before its description. An interrupted removal leaves the description and can be repeated. */
  async remove(key: UploadKey): Promise<void> {
    const path = this.pathOf(key);
    await this.#writes.run(WRITES, async () => {
      await unlink(path).catch(undefinedIfMissing);
      await unlink(path + DESCRIPTION).catch(undefinedIfMissing);
      const project = dirname(path);
      for (const emptied of [project, dirname(project)]) await rmdir(emptied).catch(ignoreInUse);
    });
  }

  async #fill(file: FileHandle, chunks: AsyncIterable<Buffer>): Promise<number> {
    let sizeBytes = 0;
    let unflushedBytes = 0;
    for await (const chunk of chunks) {
      sizeBytes += chunk.length;
      unflushedBytes += chunk.length;
      await this.#writes.run(WRITES, async () => {
        await file.writeFile(chunk);
        if (unflushedBytes < FLUSH_INTERVAL_BYTES) return;
        unflushedBytes = 0;
        await file.datasync();
        await checkFreeSpace(this.#folder);
      });
    }
    return sizeBytes;
  }

  /** Runs `work` with the path of a temporary file. `work` moves a complete file to its final path. */
  async #withTemporaryFile<T>({ uploadId }: UploadKey, work: (temporary: string) => Promise<T>): Promise<T> {
    const temporary = join(this.#folder, INCOMING, `${uploadId}.${randomUUID()}`);
    try {
      return await work(temporary);
    } finally {
      await unlink(temporary).catch(undefinedIfMissing);
    }
  }
}

function uploadRemoved(): Rejected {
  return new Rejected('invalid_upload_address', 'the upload was removed; request a new upload');
}

/** Returns the signing key. The first start saves a new key, so that upload addresses stay valid after a restart. */
async function persistedKey(path: string): Promise<Buffer> {
  const kept = await readFile(path).catch(undefinedIfMissing);
  if (kept?.length === SIGNING_KEY_BYTES) return kept;
  if (kept !== undefined) await unlink(path).catch(undefinedIfMissing);
  const temporary = `${path}.${randomUUID()}`;
  const file = await open(temporary, 'wx', FILE_MODE);
  try {
    await file.writeFile(randomBytes(SIGNING_KEY_BYTES));
    await file.datasync();
    await link(temporary, path).catch((error: unknown) => {
      if (codeOf(error) !== 'EEXIST') throw error;
    });
  } finally {
    await file.close();
    await unlink(temporary);
  }
  await syncFolder(dirname(path));
  return await readFile(path);
}

async function syncFolder(path: string): Promise<void> {
  const folder = await open(path, constants.O_RDONLY);
  try {
    await folder.sync();
  } finally {
    await folder.close();
  }
}

/** Moves a complete file to its final path with a hard link, which never replaces an existing file. */
async function keepFirst(temporary: string, path: string): Promise<void> {
  try {
    await link(temporary, path);
  } catch (error) {
    if (codeOf(error) !== 'EEXIST') throw error;
    if (await haveSameBytes(temporary, path)) return;
    throw new Rejected('conflict', 'the upload already has other bytes; request a new upload');
  }
}

async function haveSameBytes(onePath: string, otherPath: string): Promise<boolean> {
  const one = await open(onePath, constants.O_RDONLY);
  const other = await open(otherPath, constants.O_RDONLY);
  try {
    if ((await one.stat()).size !== (await other.stat()).size) return false;
    const [a, b] = [Buffer.alloc(COMPARED_BYTES), Buffer.alloc(COMPARED_BYTES)];
    for (;;) {
      const [read] = await Promise.all([one.read(a), other.read(b)]);
      if (!a.subarray(0, read.bytesRead).equals(b.subarray(0, read.bytesRead))) return false;
      if (read.bytesRead === 0) return true;
    }
  } finally {
    await one.close();
    await other.close();
  }
}

async function* uploadsOf(folder: string, day: string): AsyncGenerator<UploadKey> {
  for (const projectId of (await readdir(join(folder, day)).catch(undefinedIfMissing)) ?? []) {
    const names = (await readdir(join(folder, day, projectId)).catch(undefinedIfMissing)) ?? [];
    const ids = names.map((name) => canonicalUuid(name.replace(DESCRIPTION, '')) ?? '').filter(isUuidV7);
    for (const uploadId of new Set(ids)) yield { projectId, uploadId };
  }
}

/** Disk errors that only an operator can fix. For these errors, clients get the HTTP status 503. */
const DISK_CODES = ['ENOSPC', 'EDQUOT', 'EROFS', 'EIO', 'EMFILE', 'ENFILE'];

async function withDiskErrors<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (cause) {
    throw DISK_CODES.includes(codeOf(cause)) ? storeUnavailable(cause) : cause;
  }
}

async function checkFreeSpace(folder: string): Promise<void> {
  const { bavail, blocks, bsize } = await statfs(folder);
  if (bavail * bsize < Math.min(RESERVED_BYTES, blocks * bsize * RESERVED_SHARE)) throw storeUnavailable();
}

function storeUnavailable(cause?: unknown): Unavailable {
  return new Unavailable('the disk for uploads is full or unavailable', { cause, retryAfterS: 60 });
}

function undefinedIfMissing(error: unknown): undefined {
  if (codeOf(error) !== 'ENOENT') throw error;
}

/** Ignores an error of `rmdir` if the folder is not empty or was already removed. */
function ignoreInUse(error: unknown): void {
  if (!['ENOTEMPTY', 'EEXIST', 'ENOENT'].includes(codeOf(error))) throw error;
}

function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error ? String(error.code) : '';
}
