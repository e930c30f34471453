/** Restores a backup into an empty data folder that no Questlog process uses. */
import { randomUUID } from 'node:crypto';
import { chmod, copyFile, mkdir, readdir, rm, writeFile } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { startEngineProcess } from '@questlog/runtime/clickhouse/chdb/engineProcess';
import { openStore } from '@questlog/runtime/clickhouse/store';
import { messageOf, StartRefused } from '@questlog/runtime/process/errors';
import type { Logger } from '@questlog/runtime/process/logger';
import { BACKUPS, openDataDir, UNFINISHED_RESTORE } from '../dataDir.ts';
import { backupStatement } from './makeBackup.ts';
import { checkFiles, type Manifest, PARTS, readManifest, syncPath, syncTree } from './manifest.ts';

const DATABASE = 'questlog';
const IGNORED_NAMES = [BACKUPS, 'lost+found'];

/** Restores a backup. Throws `StartRefused` if the backup is incomplete or the target folder is not empty. */
export async function restoreBackup(from: string, to: string, logger: Logger): Promise<Manifest> {
  const folder = resolve(from);
  const manifest = await readManifest(folder);
  const target = resolve(to);
  const present = (await readdir(target).catch(() => [])).filter((name) => !IGNORED_NAMES.includes(name));
  if (present.length > 0) {
    throw new StartRefused(`${target} is not empty (${present[0]}): restore into an empty folder`);
  }
  await checkFiles(folder, manifest);
  const dataDir = openDataDir(target, []);
  const marker = join(dataDir, UNFINISHED_RESTORE);
  await writeFile(marker, `of ${folder}\n`, { flag: 'wx', mode: 0o600 });
  await syncPath(marker);
  await syncPath(dataDir);
  try {
    for (const path of Object.keys(manifest.files)) {
      if (path === PARTS.clickhouse) continue;
      await mkdir(dirname(join(dataDir, path)), { recursive: true, mode: 0o700 });
      await copyFile(join(folder, path), join(dataDir, path));
      // Sets the permissions again, because `copyFile` also copies permissions that let other users read the file.
      await chmod(join(dataDir, path), 0o600);
    }
    await restoreClickHouse(folder, join(dataDir, 'clickhouse'), logger);
    await syncTree(dataDir);
  } catch (cause) {
    const what = `the restore failed: ${messageOf(cause)}; empty ${dataDir} and restore again`;
    throw new StartRefused(what, { cause });
  }
  await rm(marker);
  await syncPath(dataDir);
  return manifest;
}

async function restoreClickHouse(folder: string, directory: string, logger: Logger): Promise<void> {
  const account = { username: 'restore', password: randomUUID() };
  const engine = await startEngineProcess({ directory, port: 0, ...account, backups: folder }, logger);
  const store = openStore({ url: engine.url, ...account, database: DATABASE });
  try {
    await backupStatement(store, 'RESTORE', join(folder, PARTS.clickhouse));
  } finally {
    await store.close();
    await engine.close();
  }
}
