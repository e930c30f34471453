/** `questlog dead-letters`: what could not be processed, why, and what becomes of it. */
import type { LetterPage, LetterState, ReplayedLetter } from '@questlog/schemas/http/letter';
import { Command, Option } from 'commander';
import type { Connection } from './connection.ts';
import { example, wholeNumber } from './manage.ts';
import { count, jsonText, printRows } from './print.ts';
import { parseTime } from './verify.ts';

/** Their own constant would load what checks bodies, for a line of help. */
const STATES = { open: 0, replayed: 0, discarded: 0 } satisfies Record<LetterState, 0>;
const COLUMNS = ['id', 'deadAt', 'group', 'topic', 'partition', 'offset', 'key', 'reason'];
const ID = '7846b5f4-39dd-8381-b200-dbc9f59749ad';

interface ListOptions extends Readonly<Record<string, string | number | boolean | undefined>> {
  readonly json?: boolean;
}

export function deadLettersCommand(connect: () => Promise<Connection>): Command {
  const group = new Command('dead-letters').description('list, show, replay and discard dead letters');
  example(
    group
      .command('list')
      .description('list those that wait for a decision, the newest first')
      .addOption(new Option('--state <state>', 'open unless given').choices(Object.keys(STATES)))
      .option('--group <group>', 'of this consumer group')
      .option('--topic <topic>', 'from this topic')
      .option('--cause <text>', 'with this in the reason')
      .option('--from <time>', 'ISO 8601, or so long ago: 30m, 2h, 1d', parseTime)
      .option('--to <time>', 'the same; now unless given', parseTime)
      .option('--limit <n>', '100 unless given, at most 1000', wholeNumber)
      .option('--json', 'for programs'),
    'questlog dead-letters list --from 1d --cause "the registry does not know"',
  ).action(async ({ json = false, ...filters }: ListOptions) => {
    const query = new URLSearchParams();
    for (const [name, value] of Object.entries(filters)) query.set(name, String(value));
    const path = `/admin/dead-letters?${query}`;
    const { deadLetters, next, open }: LetterPage = await (await connect()).admin.json('GET', path);
    printRows(deadLetters, COLUMNS, json);
    const more = next === null ? '' : 'there are more: narrow the time, or raise --limit; ';
    process.stderr.write(`${more}${count(open)} open in all\n`);
  });
  example(
    group
      .command('show')
      .description('show one with its record, decoded where that can be, as JSON')
      .argument('<id>', 'of the letter'),
    `questlog dead-letters show ${ID}`,
  ).action(async (id: string) => {
    const deadLetter: object = await (await connect()).admin.json('GET', pathOf(id));
    process.stdout.write(`${jsonText(deadLetter)}\n`);
  });
  example(
    group
      .command('replay')
      .description('append their records again, each once; mend the cause first')
      .argument('<id...>', 'of the letters'),
    `questlog dead-letters replay ${ID}`,
  ).action(async (ids: readonly string[]) => {
    const { admin } = await connect();
    for (const id of ids) {
      const replayed: ReplayedLetter = await admin.json('POST', `${pathOf(id)}/replay`);
      const { topic, partition, offset } = replayed;
      process.stderr.write(`replayed to ${topic}, partition ${partition}, offset ${offset}\n`);
    }
  });
  example(
    group
      .command('discard')
      .description('have them no longer open; they stay until they expire')
      .argument('<id...>', 'of the letters'),
    `questlog dead-letters discard ${ID}`,
  ).action(async (ids: readonly string[]) => {
    const { admin } = await connect();
    for (const id of ids) await admin.request('DELETE', pathOf(id));
    process.stderr.write('discarded\n');
  });
  return group;
}

function pathOf(id: string): string {
  return `/admin/dead-letters/${encodeURIComponent(id)}`;
}
