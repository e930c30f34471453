/** The command `questlog audit`. It prints changes by operators, and rejected credentials. */
import type { AuditRecord } from '@questlog/schemas/http/audit';
import { Command } from 'commander';
import type { Connection } from '../connection.ts';
import { example, wholeNumber } from '../manage.ts';
import { printRows } from '../print.ts';
import { parseTime } from '../verify.ts';

const COLUMNS = ['at', 'actor', 'address', 'method', 'route', 'target', 'status', 'count', 'changed'];

interface Options extends Readonly<Record<string, string | number | boolean | undefined>> {
  readonly json?: boolean;
}

export function auditCommand(connect: () => Promise<Connection>): Command {
  const command = new Command('audit')
    .description('show the changes that operators made, and the rejected credentials, newest first')
    .option('--since <time>', 'earliest time: ISO 8601, or an age such as 30m, 2h, 1d', parseTime)
    .option('--until <time>', 'latest time, in the same format (default: now)', parseTime)
    .option('--actor <actor>', 'actors that start with this text, such as console or token:1f3a')
    .option('--tenant <id>', 'entries about this tenant or one of its projects')
    .option('--project <id>', 'entries about this project')
    .option('--limit <n>', 'maximum number of entries, up to 1000 (default: 100)', wholeNumber)
    .option('--cursor <cursor>', 'continue at the cursor that the previous call printed')
    .option('--json', 'print JSON, with request bodies and the records before and after each change');
  example(command, 'questlog audit --since 1d\n  questlog audit --actor console --json');
  return command.action(async ({ json = false, ...filters }: Options) => {
    const { audit, next } = await (await connect()).admin.json('listAudit', { query: filters });
    printRows(json ? audit : audit.map((record) => ({ ...record, changed: changed(record) })), COLUMNS, json);
    if (next !== null)
      process.stderr.write(
        `there are more entries: narrow the time range, or continue with --cursor ${next}\n`,
      );
  });
}

/** Returns `created`, `removed`, or JSON with the new values of the changed fields. Returns null if no field changed. */
function changed({ before, after }: AuditRecord): string | null {
  if (after === null) return before === null ? null : 'removed';
  if (before === null) return 'created';
  const fields = Object.entries(Object(after)).filter(
    ([name, value]) => JSON.stringify(value) !== JSON.stringify(Object(before)[name]),
  );
  return fields.length === 0 ? null : JSON.stringify(Object.fromEntries(fields));
}
