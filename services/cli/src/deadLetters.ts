/** The command `questlog dead-letters`: lists, shows, replays, and discards records that could not be processed. */
import type { DeadLetterState } from '@questlog/schemas/http/deadLetter';
import { Command, Option } from 'commander';
import type { Connection } from './connection.ts';
import { example, wholeNumber } from './manage.ts';
import { count, jsonText, printRows } from './print.ts';
import { parseTime } from './verify.ts';

const STATES = { open: 0, replayed: 0, discarded: 0 } satisfies Record<DeadLetterState, 0>;
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
      .description('list open dead letters, newest first')
      .addOption(new Option('--state <state>', 'default: open').choices(Object.keys(STATES)))
      .option('--group <group>', 'only dead letters of this consumer group')
      .option('--topic <topic>', 'only records of this topic')
      .option('--cause <text>', 'only dead letters with this text in the reason')
      .option('--from <time>', 'earliest time: ISO 8601, or an age such as 30m, 2h, 1d', parseTime)
      .option('--to <time>', 'latest time, in the same format (default: now)', parseTime)
      .option('--limit <n>', 'maximum number of dead letters, up to 1000 (default: 100)', wholeNumber)
      .option('--json', 'print JSON'),
    'questlog dead-letters list --from 1d --cause "the registry does not know"',
  ).action(async ({ json = false, ...filters }: ListOptions) => {
    const { admin } = await connect();
    const { deadLetters, next, open } = await admin.json('listDeadLetters', { query: filters });
    printRows(deadLetters, COLUMNS, json);
    const more = next === null ? '' : 'there are more: narrow the time range, or raise --limit; ';
    process.stderr.write(`${more}${count(open)} open in total\n`);
  });
  example(
    group
      .command('show')
      .description('print a dead letter as JSON, with its record, decoded if possible')
      .argument('<id>', 'id of the dead letter'),
    `questlog dead-letters show ${ID}`,
  ).action(async (id: string) => {
    const deadLetter = await (await connect()).admin.json('getDeadLetter', { params: { id } });
    process.stdout.write(`${jsonText(deadLetter)}\n`);
  });
  example(
    group
      .command('replay')
      .description('append the records again, each once; fix the cause first')
      .argument('<id...>', 'ids of the dead letters'),
    `questlog dead-letters replay ${ID}`,
  ).action(async (ids: readonly string[]) => {
    const { admin } = await connect();
    for (const id of ids) {
      const { topic, partition, offset } = await admin.json('replayDeadLetter', { params: { id } });
      process.stderr.write(`replayed to ${topic}, partition ${partition}, offset ${offset}\n`);
    }
  });
  example(
    group
      .command('discard')
      .description('close dead letters without a replay; they are kept until they expire')
      .argument('<id...>', 'ids of the dead letters'),
    `questlog dead-letters discard ${ID}`,
  ).action(async (ids: readonly string[]) => {
    const { admin } = await connect();
    for (const id of ids) await admin.request('discardDeadLetter', { params: { id } });
    process.stderr.write('discarded\n');
  });
  return group;
}
