/** The command `questlog verify`. It compares the accepted events with the log and ClickHouse, and prints the differences. */
import { Backoff, retry } from '@questlog/runtime/process/waiting';
import type { Difference, VerifyInput, VerifyLine, VerifySummary } from '@questlog/schemas/http/ledger';
import { Command, InvalidArgumentError } from 'commander';
import type { Connection } from './connection.ts';
import { example } from './manage.ts';
import { readLines } from './ndjson.ts';
import { count, escapeControls, Progress, printRows } from './print.ts';

interface Options {
  readonly from: string;
  readonly to?: string;
  readonly tenant?: string;
  readonly json?: boolean;
}

const COLUMNS = ['what', 'tenantId', 'minute', 'expected', 'found', 'partition', 'offset', 'appendId'];
const RETRY_MS = 500;
const UNIT_MS = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };

export function verifyCommand(connect: () => Promise<Connection>): Command {
  const command = new Command('verify')
    .description(
      'count the events of a time range in the log and in ClickHouse, and print differences; exit code 1 if there are any',
    )
    .requiredOption('--from <time>', 'start of the range: ISO 8601, or an age such as 30m, 2h, 1d', parseTime)
    .option('--to <time>', 'end of the range, in the same format (default: now)', parseTime)
    .option('--tenant <id>', 'only events of this tenant')
    .option('--json', 'print NDJSON: the differences, then a summary');
  example(
    command,
    'questlog verify --from 1h\n  questlog verify --from 2026-11-21T18:00Z --to 2026-11-21T19:00Z',
  );
  return command.action(async ({ from, to, tenant, json = false }: Options) => {
    const progress = new Progress();
    const answer = await startVerification(await connect(), {
      from,
      to: to ?? null,
      tenantId: tenant ?? null,
    });
    const differences: Difference[] = [];
    let summary: VerifySummary | undefined;
    for await (const { text } of readLines(chunksOf(answer))) {
      const line: VerifyLine | undefined = text === '' ? undefined : JSON.parse(text);
      if (line?.kind === 'failed') throw new Error(line.detail);
      if (line?.kind === 'progress') progress.show(`${count(line.records)} records read`);
      if (line?.kind === 'difference' && !json) differences.push(line);
      if (line?.kind === 'summary') summary = line;
      if (json && (line?.kind === 'difference' || line?.kind === 'summary'))
        process.stdout.write(`${escapeControls(text)}\n`);
    }
    progress.clear();
    if (summary === undefined)
      throw new Error('Questlog closed the connection before the verification was complete; try again');
    if (!json) await print(differences, summary);
    if (summary.differences > 0) process.exitCode = 1;
  });
}

export function parseTime(text: string): string {
  const [, n, unit] = /^(\d{1,6})([smhd])$/.exec(text) ?? [];
  if (n !== undefined) {
    return new Date(Date.now() - Number(n) * UNIT_MS[unit as keyof typeof UNIT_MS]).toISOString();
  }
  if (/^\d{4}-\d\d-\d\d/.test(text)) return text;
  throw new InvalidArgumentError(
    'it must be a time such as 2026-11-21T18:30Z, or an age such as 30m, 2h, 1d',
  );
}

async function startVerification({ admin }: Connection, body: VerifyInput): Promise<Response> {
  return await retry(() => admin.request('verify', { body }), {
    backoff: new Backoff(RETRY_MS, RETRY_MS),
    isRetryable: (error) => Reflect.get(error, 'code') === 'already_running',
  });
}

async function* chunksOf({ body }: Response): AsyncGenerator<Buffer> {
  for await (const piece of body ?? []) yield Buffer.from(piece);
}

async function print(differences: readonly Difference[], summary: VerifySummary): Promise<void> {
  if (differences.length > 0) {
    printRows(differences, COLUMNS, false);
    const { DIFFERENCES } = await import('@questlog/schemas/http/ledger');
    for (const what of new Set(differences.map((one) => one.what))) {
      process.stderr.write(`${what}: ${DIFFERENCES[what]}\n`);
    }
  }
  const { from, to, logged, projected, repeated, dead, pastRetention, notYet } = summary;
  const { expired, cut, ofOtherLogs, isWhole } = summary;
  const details = [
    ...countText(repeated.events, 'duplicates, dropped'),
    ...countText(dead.records, 'dead letters'),
    ...countText(pastRetention.events, 'removed by the retention of their project'),
    ...countText(notYet.events, 'not in ClickHouse yet'),
    ...countText(expired, 'in ClickHouse, but expired in the log'),
    ...countText(cut, 'in ClickHouse, but lost by a truncated log (see the table truncations)'),
    ...countText(ofOtherLogs, 'in ClickHouse, from an earlier log'),
  ];
  const events = `${count(logged.events)} events in the log, ${count(projected.events)} of them in ClickHouse`;
  process.stderr.write(`${from} to ${to}: ${[events, ...details].join('; ')}\n`);
  const incomplete = isWhole ? '' : '; stopped after these differences';
  const differenceText =
    summary.differences === 1 ? '1 difference' : `${count(summary.differences)} differences`;
  process.stderr.write(summary.differences === 0 ? 'nothing differs\n' : `${differenceText}${incomplete}\n`);
}

function countText(n: number, what: string): string[] {
  return n === 0 ? [] : [`${count(n)} ${what}`];
}
