/** `questlog tenants | projects | tokens | console`: the directory of a running Questlog, and the address of its pages. */
import type {
  ProjectInput,
  ProjectPatch,
  TenantInput,
  TenantPatch,
  TokenInput,
  TokenRotation,
} from '@questlog/schemas/http/admin';
import { Command, InvalidArgumentError } from 'commander';
import type { Connection } from './connection.ts';
import { jsonText, printRows } from './print.ts';

const TENANT = ['id', 'name', 'monthlySoftQuota', 'spread', 'limits', 'suspended', 'createdAt'];
const PROJECT = ['id', 'tenantId', 'name', 'revision', 'limits', 'suspended', 'retentionDays', 'createdAt'];
const TOKEN = ['id', 'projectId', 'scopes', 'buildIds', 'expiresAt', 'lastUsedAt', 'rotatedTo', 'createdAt'];

export function manageCommands(connect: () => Promise<Connection>): Command[] {
  return [tenants(connect), projects(connect), tokens(connect), consoleAddress(connect)];
}

function tenants(connect: () => Promise<Connection>): Command {
  const group = new Command('tenants').description('list, create and change studios');
  list(group, connect, 'tenants', TENANT);
  example(
    group
      .command('create')
      .description('create a tenant')
      .requiredOption('--name <name>', 'what people call it')
      .option('--quota <events>', 'soft quota a UTC month; none unless given', wholeNumber)
      .option('--spread <partitions>', 'partitions that new sessions are spread over', wholeNumber)
      .option('--json', 'for programs'),
    'questlog tenants create --name "Blue Fox" --quota 5000000',
  ).action(async ({ name, quota, spread, json }) => {
    const input: TenantInput = { name, monthlySoftQuota: quota, spread };
    await write(connect, 'POST', '/admin/tenants', { input, columns: TENANT, json });
  });
  example(
    withLimitOptions(
      group
        .command('set')
        .description('change a tenant')
        .argument('<id>', 'of the tenant')
        .option('--name <name>', 'what people call it')
        .option('--quota <events>', 'soft quota a UTC month, or none', quotaOrNone)
        .option('--spread <partitions>', 'partitions that new sessions are spread over', wholeNumber),
    ),
    'questlog tenants set 6d0c4b1e-1f0b-4c3f-8a59-0d4d1b1f3c11 --quota none --limits events=5000',
  ).action(async (id, { name, quota, spread, json, ...limitOptions }) => {
    const monthlySoftQuota = quota === 'none' ? null : quota;
    const input: TenantPatch = { name, monthlySoftQuota, spread, ...patchOf(limitOptions) };
    await write(connect, 'PATCH', `/admin/tenants/${encodeURIComponent(id)}`, {
      input,
      columns: TENANT,
      json,
    });
  });
  return group;
}

function consoleAddress(connect: () => Promise<Connection>): Command {
  const command = new Command('console').description(
    'print the address of the console, with the admin token that signs in',
  );
  return example(command, 'questlog console').action(async () => {
    process.stdout.write(`${(await connect()).admin.signInUrl}\n`);
  });
}

function projects(connect: () => Promise<Connection>): Command {
  const group = new Command('projects').description('list, create and change games');
  list(group, connect, 'projects', PROJECT);
  example(
    group
      .command('create')
      .description('create a project of a tenant')
      .requiredOption('--tenant <id>', 'whose it is')
      .requiredOption('--name <name>', 'what people call it')
      .option('--revision <A|B>', 'of the contract; QUESTLOG_REVISION unless given')
      .option('--json', 'for programs'),
    'questlog projects create --tenant 6d0c4b1e-1f0b-4c3f-8a59-0d4d1b1f3c11 --name "Fox Run"',
  ).action(async ({ tenant, name, revision, json }) => {
    const input: ProjectInput = { tenantId: tenant, name, revision };
    await write(connect, 'POST', '/admin/projects', { input, columns: PROJECT, json });
  });
  example(
    withLimitOptions(
      group
        .command('set')
        .description('change a project')
        .argument('<id>', 'of the project')
        .option('--name <name>', 'what people call it')
        .option(
          '--retention <days>',
          'of events, sessions, reports, links and uploads, each a number or none; or none of them',
          retentionOf,
        ),
    ),
    'questlog projects set 0b0a4c0e-5a3f-4a55-9a3c-5b6f0d6f6a11 --limits events=1000,burst=10 --retention events=90',
  ).action(async (id, { name, json, retention, ...limitOptions }) => {
    const retentionDays = retention === 'none' ? null : retention;
    const input: ProjectPatch = { name, retentionDays, ...patchOf(limitOptions) };
    await write(connect, 'PATCH', `/admin/projects/${encodeURIComponent(id)}`, {
      input,
      columns: PROJECT,
      json,
    });
  });
  return group;
}

function tokens(connect: () => Promise<Connection>): Command {
  const group = new Command('tokens').description('list, create, rotate and revoke tokens of games');
  list(group, connect, 'tokens', TOKEN);
  example(
    group
      .command('create')
      .description('create a token; it is shown once')
      .requiredOption('--project <id>', 'what it may write or read')
      .option('--scopes <scopes>', 'events:write, reports:write, read; the first two unless given', (text) =>
        text.split(','),
      )
      .option('--builds <ids>', 'that it writes for, with commas between; all unless given', (text) =>
        text.split(','),
      )
      .option('--expires <time>', 'ISO 8601; never unless given')
      .option('--per-address <requests>', 'that an address may send a second; any unless given', wholeNumber)
      .option('--json', 'for programs'),
    'questlog tokens create --project 0b0a4c0e-5a3f-4a55-9a3c-5b6f0d6f6a11 --scopes events:write,reports:write',
  ).action(async ({ project, scopes, builds, expires, perAddress, json }) => {
    const limit = perAddress === undefined ? {} : { perAddress: { requestsPerSecond: perAddress } };
    const input: TokenInput = { projectId: project, scopes, buildIds: builds, expiresAt: expires, ...limit };
    await write(connect, 'POST', '/admin/tokens', { input, columns: ['id', 'token'], json });
  });
  rotate(group, connect);
  example(
    group.command('revoke').description('revoke a token').argument('<id>', 'of the token, not its secret'),
    'questlog tokens revoke 7846b5f4-39dd-4381-b200-dbc9f59749ad',
  ).action(async (id) => {
    await (await connect()).admin.request('DELETE', `/admin/tokens/${encodeURIComponent(id)}`);
    process.stderr.write('revoked\n');
  });
  return group;
}

function rotate(group: Command, connect: () => Promise<Connection>): void {
  example(
    group
      .command('rotate')
      .description('create a token in the place of another, which ends after a while')
      .argument('<id>', 'of the old token, not its secret')
      .requiredOption('--overlap <seconds>', 'for how long the old one goes on; 0: not at all', wholeNumber)
      .option(
        '--expires <time>',
        'of the new one, ISO 8601 or never; unless given, it lives as long as the old one was made for',
      )
      .option('--json', 'for programs'),
    'questlog tokens rotate 7846b5f4-39dd-4381-b200-dbc9f59749ad --overlap 86400',
  ).action(async (id, { overlap, expires, json }) => {
    const expiresAt = expires === 'never' ? null : expires;
    const input: TokenRotation = { overlapSeconds: overlap, expiresAt };
    const path = `/admin/tokens/${encodeURIComponent(id)}/rotate`;
    await write(connect, 'POST', path, {
      input,
      columns: ['id', 'token', 'expiresAt', 'oldExpiresAt'],
      json,
    });
  });
}

function list(
  group: Command,
  connect: () => Promise<Connection>,
  what: string,
  columns: readonly string[],
): void {
  const command = group.command('list').description(`list all ${what}`).option('--json', 'for programs');
  example(command, `questlog ${what} list --json`).action(async ({ json }) => {
    printRows(await (await connect()).admin.json('GET', `/admin/${what}`), columns, json);
  });
}

async function write(
  connect: () => Promise<Connection>,
  method: string,
  path: string,
  { input, columns, json }: { input: object; columns: readonly string[]; json: boolean | undefined },
): Promise<void> {
  const entity: object = await (await connect()).admin.json(method, path, { body: input });
  if (json === true) process.stdout.write(`${jsonText(entity)}\n`);
  else printRows([entity], columns, false);
}

interface LimitOptions {
  readonly limits?: ReturnType<typeof limitsOf>;
  readonly suspend?: true;
  readonly resume?: true;
}

function withLimitOptions(command: Command): Command {
  return command
    .option(
      '--limits <limits>',
      'events, requests and bytes a second, and the burst in seconds, or none',
      limitsOf,
    )
    .option('--suspend', 'its tokens may write nothing')
    .option('--resume', 'its tokens may write again')
    .option('--json', 'for programs');
}

function patchOf({ limits, suspend, resume }: LimitOptions): Pick<ProjectPatch, 'limits' | 'suspended'> {
  const suspended = resume === true ? false : suspend;
  const newLimits = limits === 'none' ? null : limits;
  return {
    ...(newLimits !== undefined && { limits: newLimits }),
    ...(suspended !== undefined && { suspended }),
  };
}

const LIMITS = {
  events: 'eventsPerSecond',
  requests: 'requestsPerSecond',
  bytes: 'bytesPerSecond',
  burst: 'burstSeconds',
} as const;

function limitsOf(text: string): 'none' | NonNullable<ProjectPatch['limits']> {
  if (text === 'none') return text;
  const entries = text.split(',').map((each) => {
    const [name = '', value = ''] = each.split('=');
    const [, field] = Object.entries(LIMITS).find(([option]) => option === name) ?? [];
    if (field === undefined) throw new InvalidArgumentError('none, or a list such as events=1000,burst=10');
    return [field, wholeNumber(value)];
  });
  return Object.fromEntries(entries);
}

function retentionOf(text: string): 'none' | NonNullable<ProjectPatch['retentionDays']> {
  if (text === 'none') return text;
  const entries = text.split(',').map((each) => {
    const [name = '', value = ''] = each.split('=');
    if (name === '' || value === '') {
      throw new InvalidArgumentError('none, or a list such as events=90,reports=none');
    }
    // Which there are, and how many days, the server says.
    return [name, value === 'none' ? null : wholeNumber(value)];
  });
  return Object.fromEntries(entries);
}

export function example(command: Command, line: string): Command {
  return command.addHelpText('after', `\nExample:\n  ${line}`);
}

export function wholeNumber(text: string): number {
  if (/^\d{1,15}$/.test(text)) return Number(text);
  throw new InvalidArgumentError('a whole number is needed');
}

function quotaOrNone(text: string): number | 'none' {
  return text === 'none' ? text : wholeNumber(text);
}
