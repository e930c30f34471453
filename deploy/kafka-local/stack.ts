/** The command `npm run stack`, which manages a local stack: Kafka, a schema registry, ClickHouse, and an S3 server. */
import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import {
  bringUp,
  killNodes,
  provideParts,
  type StackFolders,
  startNodes,
  statusLines,
  takeDown,
} from './commands.ts';
import { withLock } from './lock.ts';
import { clusterFolder, environmentOf } from './stackState.ts';

const USAGE =
  'usage: npm run -s stack -- fetch [--s3] | up [--brokers 1|3] [--s3] | status | kill <name>… | start <name>… | down   (names: broker-1, …, registry, clickhouse, s3)';

const env: Readonly<Record<string, string | undefined>> = process.env;

try {
  if (process.platform !== 'linux')
    throw new Error('this command requires Linux, because it identifies processes by /proc');
  const folder = resolve(env['QUESTLOG_DATA_DIR'] ?? '.data', 'stack');
  const { positionals, values } = parseArgs({
    allowPositionals: true,
    options: { brokers: { type: 'string' }, s3: { type: 'boolean' } },
  });
  const jarsFolder = resolve(env['QUESTLOG_STACK_JARS'] ?? join(folder, 'jars'));
  process.stdout.write(await run({ folder, jarsFolder }, positionals, values));
} catch (error) {
  process.stderr.write(`stack: ${error instanceof Error ? error.message : String(error)}\n`);
  process.exitCode = 1;
}

interface Options {
  readonly brokers?: string | undefined;
  readonly s3?: boolean | undefined;
}

async function run(
  folders: StackFolders,
  [command, ...names]: string[],
  { brokers, s3 = false }: Options,
): Promise<string> {
  if (brokers !== undefined && (command !== 'up' || !['1', '3'].includes(brokers))) throw new Error(USAGE);
  if (s3 && command !== 'up' && command !== 'fetch') throw new Error(USAGE);
  const takesNames = command === 'kill' || command === 'start';
  if (takesNames !== names.length > 0) throw new Error(USAGE);
  const { folder } = folders;
  const locked = <T>(body: () => Promise<T>) => withLock(clusterFolder(folder), body);
  switch (command) {
    case 'fetch':
      await provideParts(folders, s3);
      return '';
    case 'up': {
      const wanted = brokers === undefined ? undefined : Number(brokers);
      return environmentOf(await locked(() => bringUp(folders, wanted, s3)));
    }
    case 'status':
      return (await statusLines(folder)).map((line) => `${line}\n`).join('');
    case 'kill':
      await locked(() => killNodes(folder, names));
      return '';
    case 'start':
      await locked(() => startNodes(folders, names));
      return '';
    case 'down':
      await locked(() => takeDown(folder));
      return '';
    default:
      throw new Error(USAGE);
  }
}
