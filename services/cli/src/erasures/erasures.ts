/** The command `questlog erasures`: erases a session, a player, a project, or a tenant, and shows the progress. */
import type { ErasureInput, ErasureOutput } from '@questlog/schemas/http/erasure';
import { Command } from 'commander';
import type { Connection } from '../connection.ts';
import { example } from '../manage.ts';
import { jsonText, printRows } from '../print.ts';

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
    'erase a session, a player, a project or a tenant permanently, and list erasures',
  );
  example(
    group.command('list').description('list erasures, newest first').option('--json', 'print JSON'),
    'questlog erasures list',
  ).action(async ({ json = false }: { json?: boolean }) => {
    const erasures = await (await connect()).admin.json('listErasures');
    printRows(json ? erasures : erasures.map(rowOf), COLUMNS, json);
  });
  example(
    group
      .command('show')
      .description('print an erasure and its receipt as JSON')
      .argument('<id>', 'id of the erasure'),
    `questlog erasures show ${ID}`,
  ).action(async (id: string) => {
    print(await (await connect()).admin.json('getErasure', { params: { id } }));
  });
  example(
    group
      .command('create')
      .description(
        'erase the data of the tenant, or only of the project, session, or player that the options name; this cannot be undone',
      )
      .requiredOption('--tenant <id>', 'tenant; without other options, all its data is erased')
      .option('--project <id>', 'project; without further options, all its data is erased')
      .option('--session <id>', 'session to erase')
      .option('--player <id>', 'external id of the player whose sessions are erased')
      .option('--device <id>', 'device id whose sessions are erased')
      .option('--many', 'allow the erasure of a player with more than 20,000 sessions'),
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
    print(await (await connect()).admin.json('createErasure', { body: input }));
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
