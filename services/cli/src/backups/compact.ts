/** `questlog compact` rewrites the embedded log's file of a Questlog that is stopped. */
import { join } from 'node:path';
import { Command } from 'commander';
import { example } from '../manage.ts';
import { count } from '../print.ts';

const MIB = 1024 * 1024;

export function compactCommand(env: NodeJS.ProcessEnv): Command {
  const command = new Command('compact').description(
    'remove what deleted records have left in the file of the embedded log (QUESTLOG_DATA_DIR); Questlog must be stopped',
  );
  return example(command, 'questlog compact').action(async () => {
    const [{ compactLog }, { reservedBytesOf }, { settingsOf }] = await Promise.all([
      import('@questlog/runtime/log/embedded/compactLog'),
      import('@questlog/standalone/dataDir'),
      import('../reach.ts'),
    ]);
    process.umask(0o077);
    const directory = join((await settingsOf(env)).dataDir, 'log');
    const { bytesBefore, bytesAfter } = compactLog(directory, () => reservedBytesOf(directory));
    const [before, after] = [bytesBefore, bytesAfter].map((bytes) => count(Math.ceil(bytes / MIB)));
    process.stdout.write(`${directory}: ${before} MiB before, ${after} MiB now\n`);
  });
}
