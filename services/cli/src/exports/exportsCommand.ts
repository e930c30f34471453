/** The command `questlog exports`: exports that operations writes to an S3 bucket. */
import type { ExportInput } from '@questlog/schemas/http/export';
import { Command, Option } from 'commander';
import type { Connection } from '../connection.ts';
import { example, wholeNumber } from '../manage.ts';
import { jsonText, printRows } from '../print.ts';
import { FORMATS, KINDS, parseDay, parseUuid } from './exportCommand.ts';

const COLUMNS = ['id', 'kind', 'path', 'everyHours', 'state', 'nextRunAt', 'finishedAt', 'rows', 'problem'];
const ID = '7846b5f4-39dd-4381-b200-dbc9f59749ad';

interface CreateOptions
  extends Pick<ExportInput, 'kind' | 'output' | 'format' | 'from' | 'to' | 'everyHours'> {
  readonly project: string;
}

export function exportsCommand(connect: () => Promise<Connection>): Command {
  const group = new Command('exports').description(
    'list, create and delete exports that the service operations writes to an S3 bucket',
  );
  example(
    group.command('list').description('list exports').option('--json', 'print JSON'),
    'questlog exports list',
  ).action(async ({ json = false }: { json?: boolean }) => {
    printRows(await (await connect()).admin.json('listExports'), COLUMNS, json);
  });
  example(
    group.command('show').description('print an export as JSON').argument('<id>', 'id of the export'),
    `questlog exports show ${ID}`,
  ).action(async (id: string) => {
    print(await (await connect()).admin.json('getExport', { params: { id } }));
  });
  example(
    group
      .command('create')
      .description('export the rows of a project, once or on a schedule')
      .requiredOption('--project <id>', 'project of the rows', parseUuid)
      .addOption(new Option('--kind <kind>', 'kind of rows').choices(KINDS).makeOptionMandatory())
      .requiredOption(
        '--output <address>',
        's3://bucket/prefix; operations needs the QUESTLOG_S3 settings except the bucket',
      )
      .addOption(new Option('--format <name>', 'format of the files').choices(FORMATS).default('parquet'))
      .option('--from <day>', 'first day of receipt, in UTC (default: all days)', parseDay)
      .option('--to <day>', 'day after the last day of receipt, in UTC', parseDay)
      .option('--every-hours <hours>', 'hours between two runs (default: one run)', wholeNumber),
    `questlog exports create --project ${ID} --kind events --output s3://bucket/questlog --every-hours 24`,
  ).action(async ({ project: projectId, ...options }: CreateOptions) => {
    print(await (await connect()).admin.json('createExport', { body: { projectId, ...options } }));
  });
  example(
    group
      .command('delete')
      .description('end an export and its schedule, and keep its files')
      .argument('<id>', 'id of the export')
      .option('--force', 'delete the export even if its files can contain erased rows'),
    `questlog exports delete ${ID}`,
  ).action(async (id: string, { force }: { force?: true }) => {
    await (await connect()).admin.request('deleteExport', { params: { id }, query: { force } });
    process.stderr.write('deleted\n');
  });
  return group;
}

function print(entity: object): void {
  process.stdout.write(`${jsonText(entity)}\n`);
}
