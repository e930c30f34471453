/** `questlog audit`: what operators changed, and who was refused. */
import type { AuditPage, AuditRecord } from '@questlog/schemas/http/audit';
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
    .description('what operators changed and who was refused, the newest first')
    .option('--since <time>', 'ISO 8601, or so long ago: 30m, 2h, 1d', parseTime)
    .option('--until <time>', 'the same; now unless given', parseTime)
    .option('--actor <actor>', 'by one that begins so, as console or token:1f3a')
    .option('--tenant <id>', 'about this tenant, or one of its projects')
    .option('--project <id>', 'about this project')
    .option('--limit <n>', '100 unless given, at most 1000', wholeNumber)
    .option('--cursor <cursor>', 'on from there, as the last call has told')
    .option('--json', 'for programs, with the bodies and the records before and after');
  example(command, 'questlog audit --since 1d\n  questlog audit --actor console --json');
  return command.action(async ({ json = false, ...filters }: Options) => {
    const query = new URLSearchParams();
    for (const [name, value] of Object.entries(filters)) query.set(name, String(value));
    const { audit, next }: AuditPage = await (await connect()).admin.json('GET', `/admin/audit?${query}`);
    printRows(json ? audit : audit.map((record) => ({ ...record, changed: changed(record) })), COLUMNS, json);
    if (next !== null) process.stderr.write(`there are more: narrow the time, or --cursor ${next}\n`);
  });
}

/** The fields of a record that are no longer as they were, as they are now. */
function changed({ before, after }: AuditRecord): string | null {
  if (after === null) return before === null ? null : 'removed';
  if (before === null) return 'made';
  const fields = Object.entries(Object(after)).filter(
    ([name, value]) => JSON.stringify(value) !== JSON.stringify(Object(before)[name]),
  );
  return fields.length === 0 ? null : JSON.stringify(Object.fromEntries(fields));
}
