/** `questlog sql`: a question to ClickHouse by the account that only reads; prints ClickHouse's own table, or another format. */
import { text } from 'node:stream/consumers';
import { Command } from 'commander';
import { example } from './manage.ts';
import type { Reach } from './reach.ts';

const TABLE = 'PrettyCompactMonoBlock';
/** The question names a format itself. A text that only ends like that is answered in JSON. */
const NAMES_FORMAT = /\bFORMAT\s+\w+(\s+SETTINGS\b.*)?$/is;

export function askCommand(at: () => Promise<Reach>): Command {
  const command = new Command('sql')
    .description('ask ClickHouse; the tables: docs/reference/clickhouse.md')
    .argument('[statement...]', 'one SELECT; standard input unless given')
    .option('--format <name>', 'any of ClickHouse’s, as CSVWithNames or JSONEachRow');
  example(command, 'questlog sql "SELECT event_type, count() FROM events GROUP BY event_type"');
  return command.action(async (words: string[], options: { format?: string }) => {
    const given = words.length > 0 || process.stdin.isTTY ? words.join(' ') : await text(process.stdin);
    const query = given.replace(/[;\s]+$/, '');
    if (query === '') command.error('error: a statement is needed, as in: questlog sql "SELECT 1"');
    const format = options.format ?? (NAMES_FORMAT.test(query) ? undefined : TABLE);
    const answer = await (await at()).admin.request('POST', '/admin/sql', {
      body: { query: format === undefined ? query : `${query}\nFORMAT ${format}` },
    });
    const body = Buffer.from(await answer.arrayBuffer());
    process.stdout.write(body.length === 0 && format === TABLE ? 'no rows\n' : body);
  });
}
