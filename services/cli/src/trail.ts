/** `questlog trail`: a bug report and the events that it is linked to, in their order. */
import { Command } from 'commander';
import { example } from './manage.ts';
import { printRows } from './print.ts';
import type { Reach } from './reach.ts';

const COLUMNS = ['occurredAt', 'sequence', 'eventType', 'id', 'payload'];

export function trailCommand(at: () => Promise<Reach>): Command {
  const command = new Command('trail')
    .description('a bug report with its events')
    .argument('<reportId>', 'of the report')
    .option('--json', 'the events as a JSON array, for programs');
  example(command, 'questlog trail 0b0a4c0e-5a3f-4a55-9a3c-5b6f0d6f6a11');
  return command.action(async (reportId: string, { json = false }: { json?: boolean }) => {
    const { game } = await at();
    const path = `/v1/reports/${encodeURIComponent(reportId)}`;
    const report: Report = await game.json('GET', path);
    const events: object[] = [];
    for (let cursor: string | null = ''; cursor !== null; ) {
      const query: string = cursor === '' ? '' : `?cursor=${encodeURIComponent(cursor)}`;
      const page: Page = await game.json('GET', `${path}/events${query}`);
      events.push(...page.events);
      cursor = page.next;
    }
    if (!json) process.stderr.write(`${heading(report)}\n`);
    printRows(events, COLUMNS, json);
  });
}

interface Report {
  readonly state: string;
  readonly occurredAt: string;
  readonly report: { readonly title: string | null } | null;
  readonly sequence: {
    readonly received: number;
    readonly missing: readonly (readonly [number, number])[];
  } | null;
}

interface Page {
  readonly events: readonly object[];
  readonly next: string | null;
}

function heading({ state, occurredAt, report, sequence }: Report): string {
  const title = (report?.title ?? 'a report without a title').replace(/\p{Cc}/gu, '\uFFFD');
  const gaps = (sequence?.missing ?? []).map(([from, to]) => (from === to ? `${from}` : `${from}–${to}`));
  const whole = gaps.length === 0 ? 'no gap' : `missing: ${gaps.join(', ')}`;
  const numbers = sequence === null ? '' : `; ${sequence.received} numbered events of its session, ${whole}`;
  return `${title} (${state}, ${occurredAt})${numbers}`;
}
