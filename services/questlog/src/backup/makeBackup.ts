/** Creates a backup of running embedded engines. Decision 0035 explains the order in which the parts are copied. */
import { randomUUID } from 'node:crypto';
import { constants } from 'node:fs';
import { copyFile, mkdir, readdir, rename, rm, stat, statfs } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { sqlString } from '@questlog/runtime/clickhouse/chdb/engine/sqlText';
import type { Store } from '@questlog/runtime/clickhouse/store';
import { CURSOR_SECRET_ID } from '@questlog/runtime/cursors/cursorCiphers';
import type { EmbeddedExtras } from '@questlog/runtime/log/embedded/embeddedLog';
import type { Log } from '@questlog/runtime/log/log';
import { Unavailable } from '@questlog/runtime/process/errors';
import { entityKey } from '@questlog/schemas/topics/directoryEntry';
import { GROUPS, TOPICS } from '@questlog/schemas/topics/topics';
import { minFreeBytesOf } from '../dataDir.ts';
import { filesIn, type Manifest, PARTS, syncPath, writeManifest } from './manifest.ts';

export interface BackupSource {
  readonly log: Pick<Log & EmbeddedExtras, 'id' | 'copy'>;
  readonly store: Pick<Store, 'command' | 'query' | 'database'>;
  readonly dataDir: string;
  readonly credentialsPath: string;
}

export interface FinishedBackup {
  readonly folder: string;
  readonly manifest: Manifest;
}

const INCOMING_FOLDER = 'incoming';
/** Name prefix of an unfinished backup's folder. The name ends with the log id. The next backup deletes the folder. */
const UNFINISHED = '.questlog-unfinished-';
const POLL_MS = 100;
const STOP_TIMEOUT_MS = 10_000;
const MIB = 1024 * 1024;

const { link: _, ...PROJECTORS } = GROUPS;

/** Creates a backup in a new folder inside `into`. Throws `Unavailable` and deletes the folder if a disk or an engine fails. */
export async function makeBackup(
  source: BackupSource,
  header: Omit<Manifest, 'format' | 'files' | 'endedAt' | 'logId'>,
  into: string,
  signal: AbortSignal,
): Promise<FinishedBackup> {
  const unfinished = join(into, `${UNFINISHED}${source.log.id}`);
  await rm(unfinished, { recursive: true, force: true });
  await checkDiskSpace(source.dataDir, into);
  try {
    await mkdir(join(unfinished, dirname(PARTS.log)), { recursive: true, mode: 0o700 });
    // Copies ClickHouse before the log. If the copied log lacked records that have rows in ClickHouse, the restored log would
    // look truncated. Reads the projector's offsets before both copies, so that a restored projector writes all missing rows.
    await source.log.copy({
      path: join(unfinished, PARTS.log),
      groups: Object.values(PROJECTORS),
      beforeCopy: () => backupStatement(source.store, 'BACKUP', join(unfinished, PARTS.clickhouse), signal),
      // Leaves out the secret that decrypts cursors, so that old cursors are invalid after a restore. With an old cursor, a
      // client would skip new records.
      excluded: [{ topic: TOPICS.directory, key: entityKey('secret', CURSOR_SECRET_ID) }],
      signal,
    });
    // Uploads are copied last, so that the backup contains every file of its bug reports.
    await copyUploads(join(source.dataDir, PARTS.uploads), join(unfinished, PARTS.uploads), signal);
    await copyFile(source.credentialsPath, join(unfinished, basename(source.credentialsPath)));
    const ended = { logId: source.log.id, endedAt: new Date().toISOString() };
    const manifest = await writeManifest(unfinished, { ...header, ...ended }, signal);
    const folder = join(into, header.startedAt.replaceAll(':', '-'));
    await rename(unfinished, folder);
    await syncPath(into);
    return { folder, manifest };
  } catch (error) {
    await rm(unfinished, { recursive: true, force: true });
    throw error;
  }
}

async function checkDiskSpace(dataDir: string, into: string): Promise<void> {
  await mkdir(into, { recursive: true, mode: 0o700 });
  let needed = 0;
  for (const subfolder of ['log', 'clickhouse', PARTS.uploads]) {
    const folder = join(dataDir, subfolder);
    for (const path of await filesIn(folder).catch(() => [])) {
      needed += (await stat(join(folder, path)).catch(() => undefined))?.size ?? 0;
    }
  }
  const { bavail, blocks, bsize } = await statfs(into);
  needed += minFreeBytesOf(blocks * bsize);
  if (bavail * bsize >= needed) return;
  const [has, needs] = [bavail * bsize, needed].map((bytes) => Math.ceil(bytes / MIB));
  throw new Unavailable(
    `a backup needs up to ${needs} MiB including the reserve, but only ${has} MiB are free for ${into}`,
  );
}

/**
 * Runs a `BACKUP` or `RESTORE` statement asynchronously and polls until it ends, because a query has a time limit. Throws
 * `Unavailable` if the statement fails.
 */
export async function backupStatement(
  store: Pick<Store, 'command' | 'query' | 'database'>,
  what: 'BACKUP' | 'RESTORE',
  file: string,
  signal?: AbortSignal,
): Promise<void> {
  const way = what === 'BACKUP' ? 'TO' : 'FROM';
  const id = randomUUID();
  await store.command(
    `${what} DATABASE ${store.database} ${way} File(${sqlString(file)}) SETTINGS id = '${id}' ASYNC`,
  );
  let status: Status | undefined;
  try {
    status = await statusOf(store, id);
    while (isRunning(status)) {
      await delay(POLL_MS, undefined, signal && { signal });
      status = await statusOf(store, id);
    }
    signal?.throwIfAborted();
  } catch (error) {
    await stopStatement(store, id);
    throw error;
  }
  if (['BACKUP_CREATED', 'RESTORED'].includes(status?.status ?? '')) return;
  throw new Unavailable(`${what} of ClickHouse: ${status?.error ?? 'ClickHouse restarted meanwhile'}`);
}

interface Status {
  readonly status: string;
  readonly error: string;
}

function isRunning(status: Status | undefined): boolean {
  return ['CREATING_BACKUP', 'RESTORING'].includes(status?.status ?? '');
}

async function statusOf(store: Pick<Store, 'query'>, id: string): Promise<Status | undefined> {
  const sql = 'SELECT status, error FROM system.backups WHERE id = {id:String}';
  const [status] = await store.query<Status>(sql, { id });
  return status;
}

async function stopStatement(store: Pick<Store, 'command' | 'query'>, id: string): Promise<void> {
  const deadline = performance.now() + STOP_TIMEOUT_MS;
  try {
    while (isRunning(await statusOf(store, id)) && performance.now() < deadline) {
      // Repeats `KILL`, because a `KILL` has no effect if the statement has not started yet.
      await store.command(`KILL QUERY WHERE query LIKE ${sqlString(`%${id}%`)} ASYNC`);
      await delay(POLL_MS);
    }
  } catch {
    // Ignores the error, because later requests to ClickHouse fail with the same problem and report it.
  }
}

/** Copies the uploaded files. Skips files that retention or an erasure removes during the copy. */
async function copyUploads(from: string, to: string, signal: AbortSignal): Promise<void> {
  const entries = await readdir(from, { withFileTypes: true }).catch(unlessMissing);
  await mkdir(to, { mode: 0o700 });
  for (const entry of entries ?? []) {
    signal.throwIfAborted();
    const [source, copy] = [join(from, entry.name), join(to, entry.name)];
    if (entry.isDirectory() && entry.name !== INCOMING_FOLDER) await copyUploads(source, copy, signal);
    if (entry.isFile()) await copyFile(source, copy, constants.COPYFILE_FICLONE).catch(unlessMissing);
  }
}

function unlessMissing(error: unknown): undefined {
  if (!(error instanceof Error && 'code' in error && error.code === 'ENOENT')) throw error;
}
