/** The command `questlog switches` manages the rules that reject or sample events. */
import type { SwitchInput, SwitchOutput } from '@questlog/schemas/http/admin';
import { Command, InvalidArgumentError, Option } from 'commander';
import { type AdminEndpoint, type Connection, Rejected } from '../connection.ts';
import { example, wholeNumber } from '../manage.ts';
import { printRows } from '../print.ts';

const SCOPE_COLUMNS = ['eventType', 'buildId', 'playerShare'];
const COLUMNS = ['number', 'action', 'sampleRate', ...SCOPE_COLUMNS, 'until', 'reason'];
const PROJECT = '0b0a4c0e-5a3f-4a55-9a3c-5b6f0d6f6a11';
const BUILD = '74cfa6a7-bf22-8fde-ad8c-b9a9e8750976';
const MAX_ATTEMPTS = 2;
const CONFLICT =
  'another operator changed the switches of this project at the same time, twice; nothing was changed, try again';
const UNIT_MS = { m: 60_000, h: 3_600_000, d: 86_400_000 };

type Connect = () => Promise<Connection>;

interface AddOptions {
  readonly reject?: true;
  readonly sample?: number;
  readonly type?: string;
  readonly build?: string;
  readonly players?: number;
  readonly until?: string;
  readonly reason: string;
  readonly json?: boolean;
}

export function switchesCommand(connect: Connect): Command {
  const group = new Command('switches').description(
    'list, add and remove switches, which reject or sample events of a project',
  );
  example(
    group
      .command('list')
      .description('list the active switches of a project; the first switch that matches an event applies')
      .argument('<project>', 'id of the project')
      .option('--json', 'print JSON'),
    `questlog switches list ${PROJECT}`,
  ).action(async (project: string, { json = false }: { json?: boolean }) => {
    print(await (await connect()).admin.json('listSwitches', { params: { id: project } }), json);
  });
  example(
    group
      .command('add')
      .description('add a switch at the front of the list; the switch takes effect within 2 s')
      .argument('<project>', 'id of the project')
      .option('--reject', 'reject the events with the reason')
      .addOption(
        new Option('--sample <rate>', 'keep the events of this share of the sessions, such as 0.05')
          .argParser(parseShare)
          .conflicts('reject'),
      )
      .option('--type <type>', 'exact event type (default: all)')
      .option('--build <id>', 'id of the build (default: all)')
      .option('--players <share>', 'share of the players, such as 0.5 (default: all)', parseShare)
      .option(
        '--until <time>',
        'end: ISO 8601, or a time from now such as 30m, 2h, 1d (default: none)',
        parseEnd,
      )
      .requiredOption('--reason <text>', 'text for the clients whose events are rejected')
      .option('--json', 'print JSON'),
    `questlog switches add ${PROJECT} --reject --build ${BUILD} --until 2h --reason "1.4.2 sends a frame an event"`,
  ).action(async (project: string, options: AddOptions) => add(await connect(), project, options));
  example(
    group
      .command('clear')
      .description('remove all switches of a project, or one of them')
      .argument('<project>', 'id of the project')
      .argument('[number]', 'number of the switch in `questlog switches list` (default: all)', wholeNumber)
      .option('--json', 'print JSON'),
    `questlog switches clear ${PROJECT} 1`,
  ).action(async (project: string, number: number | undefined, { json = false }: { json?: boolean }) =>
    clear(await connect(), project, number, json),
  );
  return group;
}

async function add({ admin }: Connection, project: string, options: AddOptions): Promise<void> {
  const { reject, sample, type, build, players, until, reason, json = false } = options;
  if (reject === undefined && sample === undefined) throw new Error('--reject or --sample <rate> is needed');
  const first: SwitchInput = {
    eventType: type ?? null,
    buildId: build ?? null,
    playerShare: players ?? null,
    action: sample === undefined ? 'reject' : 'sample',
    sampleRate: sample ?? null,
    until: until ?? null,
    reason,
  };
  print(await change(admin, project, (existing) => [first, ...existing]), json);
}

async function clear(
  { admin }: Connection,
  project: string,
  number: number | undefined,
  isJson: boolean,
): Promise<void> {
  let removed: string[] | undefined;
  const remaining = await change(admin, project, (current) => {
    const texts = current.map((one) => JSON.stringify(one));
    // Uses `number` only in the first attempt, because another operator can renumber the switches before a retry.
    removed ??= number === undefined ? texts : texts.slice(Math.max(0, number - 1), number);
    if (number !== undefined && removed.length === 0) throw new Error(`there is no switch ${number}`);
    const toRemove = [...removed];
    return current.filter((_, i) => {
      const index = toRemove.indexOf(texts[i] ?? '');
      if (index >= 0) toRemove.splice(index, 1);
      return index < 0;
    });
  });
  print(remaining, isJson);
}

async function change(
  admin: AdminEndpoint,
  project: string,
  update: (current: readonly SwitchOutput[]) => readonly SwitchInput[],
): Promise<SwitchOutput[]> {
  const params = { id: project };
  for (let attempt = 1; ; attempt += 1) {
    const read = await admin.request('listSwitches', { params });
    // Removes the prefix `W/` that a compressing proxy adds to an `ETag`, because earlier versions of operations reject a value
    // with this prefix.
    const headers = { 'If-Match': read.headers.get('ETag')?.replace(/^W\//, '') ?? '*' };
    try {
      const body = JSON.stringify(update(JSON.parse(await read.text())));
      return await admin.json('replaceSwitches', { params, body, headers });
    } catch (error) {
      if (!(error instanceof Rejected) || error.code !== 'precondition_failed') throw error;
      if (attempt === MAX_ATTEMPTS) throw new Error(CONFLICT, { cause: error });
    }
  }
}

function print(switches: readonly SwitchOutput[], isJson: boolean): void {
  const rows = isJson ? switches : switches.map((one, i) => ({ number: i + 1, ...one }));
  printRows(rows, COLUMNS, isJson);
}

function parseShare(text: string): number {
  const value = Number(text);
  if (value > 0 && value <= 1) return value;
  throw new InvalidArgumentError('it must be a number above 0 and at most 1');
}

function parseEnd(text: string): string {
  const [, n, unit] = /^(\d{1,6})([mhd])$/.exec(text) ?? [];
  if (n !== undefined) {
    return new Date(Date.now() + Number(n) * UNIT_MS[unit as keyof typeof UNIT_MS]).toISOString();
  }
  if (/^\d{4}-\d\d-\d\d/.test(text)) return text;
  throw new InvalidArgumentError(
    'it must be a time such as 2026-11-21T18:30Z, or a time from now such as 30m, 2h, 1d',
  );
}
