/** `questlog erasures`: has a session, a player, a project or a tenant erased, and shows how far that is. */
import type { ErasureInput, ErasureOutput } from '@questlog/schemas/http/erasure';
import { Command } from 'commander';
import type { Connection } from '../connection.ts';
import { example } from '../manage.ts';
import { jsonText, printRows } from '../print.ts';

const PATH = '/admin/erasures';
const COLUMNS = ['id', 'state', 'asked', 'found', 'hiddenAt', 'goneFromDiskAt', 'problem'];
const ID = '7846b5f4-39dd-4381-b200-dbc9f59749ad';

interface CreateOptions extends Record<'tenant', string> {
  readonly project?: string;
  readonly session?: string;
  readonly player?: string;
  readonly device?: string;
  readonly many?: true;
}

export function erasuresCommand(connect: () => Promise<Connection>): Command {
  const group = new Command('erasures').description(
    'erase players and more for good, and list what was erased',
  );
  example(
    group.command('list').description('list them, the newest first').option('--json', 'for programs'),
    'questlog erasures list',
  ).action(async ({ json = false }: { json?: boolean }) => {
    const erasures: ErasureOutput[] = await (await connect()).admin.json('GET', PATH);
    printRows(json ? erasures : erasures.map(rowOf), COLUMNS, json);
  });
  example(
    group
      .command('show')
      .description('show one with its receipt, as JSON')
      .argument('<id>', 'of the erasure'),
    `questlog erasures show ${ID}`,
  ).action(async (id: string) => {
    print(await (await connect()).admin.json('GET', `${PATH}/${encodeURIComponent(id)}`));
  });
  example(
    group
      .command('create')
      .description('erase the smallest that is named; it cannot be taken back')
      .requiredOption('--tenant <id>', 'of this tenant; alone: all that it has')
      .option('--project <id>', 'of this project; alone: all that it has')
      .option('--session <id>', 'this session')
      .option('--player <id>', 'the sessions of the player with this external id')
      .option('--device <id>', 'the sessions of this device id')
      .option('--many', 'also more than 20,000 sessions of the player'),
    `questlog erasures create --tenant ${ID} --project 6d0c4b1e-1f0b-4c3f-8a59-0d4d1b1f3c11 --player kim`,
  ).action(async ({ tenant: tenantId, project, session, player, device, many }: CreateOptions) => {
    const input: ErasureInput = {
      tenantId,
      ...(project !== undefined && { projectId: project }),
      ...(session !== undefined && { sessionId: session }),
      ...((player !== undefined || device !== undefined) && {
        player: {
          ...(player !== undefined && { externalId: player }),
          ...(device !== undefined && { deviceId: device }),
        },
      }),
      ...(many && { many }),
    };
    print(await (await connect()).admin.json('POST', PATH, { body: input }));
  });
  return group;
}

function rowOf({ id, state, problem, receipt }: ErasureOutput): object {
  const { at: _, ...fields } = receipt.asked;
  const target = Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== null));
  const { hiddenAt, goneFromDiskAt } = receipt;
  return { id, state, asked: target, found: receipt.found, hiddenAt, goneFromDiskAt, problem };
}

function print(erasure: ErasureOutput): void {
  process.stdout.write(`${jsonText(erasure)}\n`);
}
