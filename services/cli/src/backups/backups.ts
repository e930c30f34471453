/**
 * `questlog backup` copies all data of a running Questlog; `questlog restore` creates a data folder from a backup;
 * `questlog compact` rewrites the file of the embedded log while Questlog is stopped.
 */
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { Backup } from '@questlog/schemas/backups/backup';
import { Command } from 'commander';
import type { Connection } from '../connection.ts';
import { example } from '../manage.ts';
import { count, printRows } from '../print.ts';

const COLUMNS = ['state', 'startedAt', 'endedAt', 'bytes', 'folder', 'problem'];
const POLL_MS = 500;
const MIB = 1024 * 1024;

interface Options {
  readonly list?: true;
  readonly json?: boolean;
}

export function backupCommand(connect: () => Promise<Connection>): Command {
  const command = new Command('backup')
    .description(
      'copy all that Questlog keeps, while it runs, into a folder of its machine; code 1 if it fails',
    )
    .option('--list', 'show those that are there instead')
    .option('--json', 'for programs');
  return example(command, 'questlog backup\n  questlog backup --list').action(
    async ({ list, json = false }: Options) => {
      const { admin } = await connect();
      const listBackups = async (): Promise<Backup[]> => (await admin.json('GET', '/admin/backups')).backups;
      if (list) return printRows(await listBackups(), COLUMNS, json);
      const { id }: Backup = await admin.json('POST', '/admin/backups');
      const backup = await waitForBackup(id, listBackups);
      if (backup?.state !== 'done') throw new Error(`no backup was made: ${backup?.problem ?? 'it is gone'}`);
      if (json) return printRows([backup], COLUMNS, json);
      const seconds = (Date.parse(backup.endedAt ?? '') - Date.parse(backup.startedAt)) / 1000;
      process.stderr.write(
        `${count(Math.ceil((backup.bytes ?? 0) / MIB))} MiB in ${seconds.toFixed(1)} s; restore it with questlog restore\n`,
      );
      process.stdout.write(`${backup.folder}\n`);
    },
  );
}

export function restoreCommand(env: NodeJS.ProcessEnv): Command {
  const command = new Command('restore')
    .description('make the data folder (QUESTLOG_DATA_DIR) of a backup; the folder must be empty')
    .argument('<folder>', 'as `questlog backup` printed it');
  return example(command, 'questlog restore /backups/2026-11-23T18-40-05.123Z').action(
    async (folder: string) => {
      const [{ restoreBackup }, { settingsOf }, { createLogger, logOptions }] = await Promise.all([
        import('@questlog/questlog/backup/restore'),
        import('../connection.ts'),
        import('@questlog/runtime/process/logger'),
      ]);
      process.umask(0o077);
      const { dataDir } = await settingsOf(env);
      const { startedAt } = await restoreBackup(folder, dataDir, createLogger('questlog', logOptions(env)));
      process.stderr.write(
        `${dataDir} is as it was at ${startedAt} or a moment later; start Questlog on it\n`,
      );
    },
  );
}

export function compactCommand(env: NodeJS.ProcessEnv): Command {
  const command = new Command('compact').description(
    'rewrite the file of the embedded log (QUESTLOG_DATA_DIR) without the bytes of deleted records; Questlog must be stopped',
  );
  return example(command, 'questlog compact').action(async () => {
    const [{ compactLog }, { reservedBytesOf }, { settingsOf }] = await Promise.all([
      import('@questlog/runtime/log/embedded/compactLog'),
      import('@questlog/questlog/dataDir'),
      import('../connection.ts'),
    ]);
    process.umask(0o077);
    const directory = join((await settingsOf(env)).dataDir, 'log');
    const { bytesBefore, bytesAfter } = compactLog(directory, () => reservedBytesOf(directory));
    const [before, after] = [bytesBefore, bytesAfter].map((bytes) => count(Math.ceil(bytes / MIB)));
    process.stdout.write(`${directory}: ${before} MiB before, ${after} MiB now\n`);
  });
}

/** Undefined: Questlog was started again meanwhile. */
async function waitForBackup(id: string, listBackups: () => Promise<Backup[]>): Promise<Backup | undefined> {
  for (;;) {
    const backup = (await listBackups()).find((one) => one.id === id);
    if (backup?.state !== 'running') return backup;
    await delay(POLL_MS);
  }
}
