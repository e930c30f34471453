/** The command `questlog export`. It writes the rows of a project to files in a folder or an S3 bucket. */
import type { ExportFolder } from '@questlog/runtime/exports/exportFolder';
import type { ExportChunkInput, ExportScope } from '@questlog/schemas/http/export';
import { canonicalUuid } from '@questlog/schemas/uuid';
import { Argument, Command, InvalidArgumentError, Option } from 'commander';
import type { Connection } from '../connection.ts';
import { INTERRUPTED, onInterrupt } from '../interrupt.ts';
import { example } from '../manage.ts';
import { count, Progress } from '../print.ts';

export const KINDS = [
  'events',
  'sessions',
  'reports',
  'links',
] as const satisfies readonly ExportScope['kind'][];
export const FORMATS = ['parquet', 'csv', 'ndjson'] as const satisfies readonly ExportChunkInput['format'][];
const MIB = 1024 * 1024;

interface Options {
  readonly project: string;
  readonly output: string;
  readonly format: (typeof FORMATS)[number];
  readonly from?: string;
  readonly to?: string;
  readonly refresh?: true;
}

export function exportCommand(connect: () => Promise<Connection>, env: NodeJS.ProcessEnv): Command {
  const command = new Command('export')
    .description('write the rows of a project to files; a repeated command continues and adds new rows')
    .addArgument(new Argument('<kind>', 'kind of rows').choices(KINDS))
    .requiredOption('--project <id>', 'project of the rows', parseUuid)
    .requiredOption(
      '--output <folder>',
      'folder, or s3://bucket/prefix with the QUESTLOG_S3 settings except the bucket',
    )
    .addOption(new Option('--format <name>', 'format of the files').choices(FORMATS).default('parquet'))
    .option('--from <day>', 'first day of receipt, in UTC (default: all days)', parseDay)
    .option('--to <day>', 'day after the last day of receipt, in UTC', parseDay)
    .option('--refresh', 'first rewrite the files whose rows were erased, have expired, or were retracted');
  example(
    command,
    'questlog export events --project 6d0c4b1e-1f0b-4c3f-8a59-0d4d1b1f3c11 --output exported\n  questlog export links --project 6d0c4b1e-1f0b-4c3f-8a59-0d4d1b1f3c11 --format csv --output s3://bucket/questlog',
  );
  return command.action(async (kind: ExportScope['kind'], options: Options) => {
    const { project, format, from = null, to = null, refresh: isRefresh = false } = options;
    const { runExport, sumOf } = await import('@questlog/runtime/exports/runExport');
    const { adminSource } = await import('./adminSource.ts');
    const stop = new AbortController();
    onInterrupt(() => stop.abort());
    const folder = await openFolder(`${options.output.replace(/\/+$/, '')}/${kind}/${project}`, env);
    const progress = new Progress();
    try {
      const { written, unknownRows } = await runExport({
        ...{ source: adminSource((await connect()).admin), folder, isRefresh, signal: stop.signal },
        request: { projectId: project, kind, format, from, to },
        onProgress: (rows, allRows) => progress.show(`${count(rows)} of ${count(allRows)} rows`),
      });
      progress.clear();
      if (unknownRows > 0)
        process.stderr.write(
          `${count(unknownRows)} rows of an earlier log are missing, because projected_offsets does not list their partition\n`,
        );
      const rows = sumOf(written, (file) => file.rows);
      const mib = Math.ceil(sumOf(written, ({ bytes }) => bytes) / MIB);
      process.stderr.write(`${count(rows)} rows in ${count(written.length)} files, ${count(mib)} MiB\n`);
      process.stdout.write(`${folder.path}\n`);
    } catch (error) {
      progress.clear();
      if (!stop.signal.aborted) throw error;
      process.stderr.write('interrupted; run the same command again to continue\n');
      process.exitCode = INTERRUPTED;
    } finally {
      await folder.close();
    }
  });
}

export function parseUuid(text: string): string {
  const id = canonicalUuid(text);
  if (id === undefined) throw new InvalidArgumentError('it must be a UUID');
  return id;
}

export function parseDay(text: string): string {
  if (/^\d{4}-\d\d-\d\d$/.test(text) && !Number.isNaN(Date.parse(text))) return text;
  throw new InvalidArgumentError('it must be a day such as 2026-11-21');
}

async function openFolder(path: string, env: NodeJS.ProcessEnv): Promise<ExportFolder> {
  if (!path.startsWith('s3://')) return await (await import('./localFolder.ts')).openLocalFolder(path);
  const [{ bucketAndPrefix, openBucketFolder }, { bucketOptions }, { settingsOf }] = await Promise.all([
    import('@questlog/runtime/exports/bucketFolder'),
    import('@questlog/runtime/uploads/uploadSettings'),
    import('../connection.ts'),
  ]);
  const { bucket, prefix } = bucketAndPrefix(path);
  return await openBucketFolder(bucketOptions(await settingsOf(env), bucket), prefix);
}
