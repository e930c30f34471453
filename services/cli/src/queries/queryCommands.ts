/** The commands `questlog trail`, `questlog quota`, and `questlog retention`. */
import type { RetentionOutput } from '@questlog/schemas/http/admin';
import type { GAMES } from '@questlog/schemas/http/operations/games';
import type { OutputOf } from '@questlog/schemas/http/operations/operation';
import { Command } from 'commander';
import type { Connection } from '../connection.ts';
import { example } from '../manage.ts';
import { count, forTerminal, jsonText, printRows, unchangedJson } from '../print.ts';

const SHOWN_GAPS = 20;
const TRAIL_COLUMNS = ['occurredAt', 'sequence', 'eventType', 'id', 'payload'];
const RETENTION_COLUMNS = ['kept', 'days', 'rows', 'bytes', 'bytes a month'];
const USAGE_QUERY = `SELECT toString(tenant_id) AS id, toUInt64(used) AS used FROM quota_usage
  WHERE month = toStartOfMonth(now('UTC'))`;

export function queryCommands(connect: () => Promise<Connection>): Command[] {
  return [trail(connect), quota(connect), retention(connect)];
}

function trail(connect: () => Promise<Connection>): Command {
  const command = new Command('trail')
    .description('show a bug report and its events')
    .argument('<reportId>', 'id of the report')
    .option('--json', 'print the events as a JSON array');
  example(command, 'questlog trail 0b0a4c0e-5a3f-4a55-9a3c-5b6f0d6f6a11');
  return command.action(async (reportId: string, { json = false }: { json?: boolean }) => {
    const { game } = await connect();
    const params = { id: reportId };
    const report = await game.json('getReport', { params });
    const events: object[] = [];
    const rawPages: string[] = [];
    for (let cursor: string | null | undefined; cursor !== null; ) {
      const text = await (await game.request('listReportEvents', { params, query: { cursor } })).text();
      const page: Page = JSON.parse(text, exactNumber);
      events.push(...page.events);
      if (page.events.length > 0) rawPages.push(text.slice(text.indexOf('[') + 1, text.lastIndexOf(']')));
      cursor = page.next;
    }
    // Copies the payloads as text, because parsing and serializing a payload would change its numbers.
    if (json) return void process.stdout.write(`[${unchangedJson(rawPages.join(',\n'))}]\n`);
    process.stderr.write(`${heading(report)}\n`);
    printRows(events, TRAIL_COLUMNS, false);
  });
}

/** Keeps the source text of a number, so that 64-bit integers and `1.0` are printed unchanged. */
function exactNumber(_name: string, value: unknown, context?: { readonly source?: string }): unknown {
  const rawJson: (text: string) => unknown = Reflect.get(JSON, 'rawJSON');
  return typeof value === 'number' && context?.source !== undefined ? rawJson(context.source) : value;
}

interface Page {
  readonly events: readonly object[];
  readonly next: string | null;
}

function heading({ state, occurredAt, report, sequence }: OutputOf<typeof GAMES.getReport>): string {
  const title = forTerminal(report?.title ?? 'a report without a title').replace(/[\n\t]/g, ' ');
  const rangeOf = ([from, to]: readonly number[]) => (from === to ? `${from}` : `${from}–${to}`);
  const gaps = (sequence?.missing ?? []).map(rangeOf);
  const expired = (sequence?.expired ?? []).map((range) => `; expired: ${rangeOf(range)}`).join('');
  const more = gaps.length > SHOWN_GAPS ? ' and more' : '';
  const gapText = gaps.length === 0 ? 'no gap' : `missing: ${gaps.slice(0, SHOWN_GAPS).join(', ')}${more}`;
  const numbers =
    sequence === null ? '' : `; ${sequence.received} numbered events of its session, ${gapText}${expired}`;
  return `${title} (${state}, ${occurredAt})${numbers}`;
}

function quota(connect: () => Promise<Connection>): Command {
  const command = new Command('quota')
    .description('show the events of each tenant in this UTC month, and its quota')
    .option('--json', 'print JSON');
  return example(command, 'questlog quota').action(async ({ json }) => {
    const { admin } = await connect();
    const tenants = await admin.json('listTenants');
    const { data }: UsedRows = await admin.json('runSql', { body: { query: USAGE_QUERY } });
    const used = new Map(data.map((row) => [row.id, Number(row.used)]));
    const rows = tenants.map(({ id, name, monthlySoftQuota }) => {
      const events = used.get(id) ?? 0;
      const over = monthlySoftQuota === null ? 0 : Math.max(0, events - monthlySoftQuota);
      return { id, name, used: events, monthlySoftQuota, over };
    });
    printRows(rows, ['id', 'name', 'used', 'monthlySoftQuota', 'over'], json);
  });
}

interface UsedRows {
  readonly data: readonly { id: string; used: string | number }[];
}

function retention(connect: () => Promise<Connection>): Command {
  const command = new Command('retention')
    .description(
      'show how long tables, files, and topics keep data, how many bytes they take, and how many bytes arrive per month',
    )
    .option('--project <id>', 'only this project; its share of a table is estimated from its rows')
    .option('--json', 'print JSON');
  example(command, 'questlog retention --project 0b0a4c0e-5a3f-4a55-9a3c-5b6f0d6f6a11');
  return command.action(async ({ project, json = false }: { project?: string; json?: boolean }) => {
    const answer = await (await connect()).admin.json('getRetention', { query: { project } });
    if (json) return void process.stdout.write(`${jsonText(answer)}\n`);
    printRows(rowsOf(answer, project !== undefined), RETENTION_COLUMNS, false);
  });
}

function rowsOf({ tables, topics }: RetentionOutput, isOfProject: boolean): object[] {
  const row = (label: string, days: string, rows: number, sizes: Sizes): object => ({
    kept: label,
    days,
    rows: count(rows),
    bytes: count(sizes.bytes),
    'bytes a month': count(sizes.bytesAMonth),
  });
  const withoutLimit = isOfProject ? 'for ever' : 'by project';
  return [
    ...tables.map(({ what, name, days, rows, ...sizes }) => {
      return row(
        what === name ? what : `${what} (${name})`,
        days === null ? withoutLimit : String(days),
        rows,
        sizes,
      );
    }),
    ...topics.map(({ name, days, records, ...sizes }) =>
      row(name, days === null ? 'last of each key' : String(days), records, sizes),
    ),
  ];
}

type Sizes = Readonly<Record<'bytes' | 'bytesAMonth', number>>;
