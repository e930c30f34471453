/** The commands `questlog backup`, `questlog restore`, and `questlog compact`. */
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
      'copy all data of a running Questlog into a folder on its machine; exit code 1 if the backup fails',
    )
    .option('--list', 'list the existing backups instead of creating one')
    .option('--json', 'print JSON');
  return example(command, 'questlog backup\n  questlog backup --list').action(
    async ({ list, json = false }: Options) => {
      const { admin } = await connect();
      const listBackups = async (): Promise<Backup[]> => (await admin.json('listBackups')).backups;
      if (list) return printRows(await listBackups(), COLUMNS, json);
      const { id } = await admin.json('createBackup');
      const backup = await waitForBackup(id, listBackups);
      if (backup?.state !== 'done')
        throw new Error(`the backup failed: ${backup?.problem ?? 'Questlog restarted during the backup'}`);
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
    .description('create the data folder (QUESTLOG_DATA_DIR) from a backup; the data folder must be empty')
    .argument('<folder>', 'folder of the backup, as `questlog backup` printed it');
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
        `${dataDir} has the data of ${startedAt} or shortly after; start Questlog with this data folder\n`,
      );
    },
  );
}

export function compactCommand(env: NodeJS.ProcessEnv): Command {
  const command = new Command('compact').description(
    'rewrite the file of the embedded log (QUESTLOG_DATA_DIR) without deleted records; stop Questlog before',
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

/** Waits until the backup ends. Returns undefined if Questlog restarts during the backup, because a restart ends the backup. */
async function waitForBackup(id: string, listBackups: () => Promise<Backup[]>): Promise<Backup | undefined> {
  for (;;) {
    const backup = (await listBackups()).find((one) => one.id === id);
    if (backup?.state !== 'running') return backup;
    await delay(POLL_MS);
  }
}
