/** The commands `questlog tenants`, `projects`, `tokens`, `readers`, and `console`. */
import type { ProjectPatch } from '@questlog/schemas/http/admin';
import { Command, InvalidArgumentError } from 'commander';
import type { Connection } from './connection.ts';
import { jsonText, printRows } from './print.ts';

const TENANT = ['id', 'name', 'monthlySoftQuota', 'spread', 'limits', 'suspended', 'createdAt'];
const PROJECT = ['id', 'tenantId', 'name', 'revision', 'limits', 'suspended', 'retentionDays', 'createdAt'];
const TOKEN = ['id', 'projectId', 'scopes', 'buildIds', 'expiresAt', 'lastUsedAt', 'rotatedTo', 'createdAt'];

const READER = ['id', 'username', 'tenantId', 'projectId', 'name', 'expiresAt', 'createdAt'];
const READER_ACCESS = ['id', 'url', 'database', 'username', 'password'];

export function manageCommands(connect: () => Promise<Connection>): Command[] {
  return [tenants(connect), projects(connect), tokens(connect), readers(connect), consoleAddress(connect)];
}

function tenants(connect: () => Promise<Connection>): Command {
  const group = new Command('tenants').description('list, create and change tenants (studios)');
  list(group, connect, 'listTenants', TENANT);
  example(
    group
      .command('create')
      .description('create a tenant')
      .requiredOption('--name <name>', 'name of the tenant')
      .option('--quota <events>', 'soft quota per UTC month (default: no quota)', wholeNumber)
      .option('--spread <partitions>', 'number of partitions over which new sessions are spread', wholeNumber)
      .option('--json', 'print JSON'),
    'questlog tenants create --name "Blue Fox" --quota 5000000',
  ).action(async ({ name, quota, spread, json }) => {
    const { admin } = await connect();
    const body = { name, monthlySoftQuota: quota, spread };
    print(await admin.json('createTenant', { body }), TENANT, json);
  });
  example(
    withLimitOptions(
      group
        .command('set')
        .description('change a tenant')
        .argument('<id>', 'id of the tenant')
        .option('--name <name>', 'name of the tenant')
        .option('--quota <events>', 'soft quota per UTC month, or none', quotaOrNone)
        .option(
          '--spread <partitions>',
          'number of partitions over which new sessions are spread',
          wholeNumber,
        ),
    ),
    'questlog tenants set 6d0c4b1e-1f0b-4c3f-8a59-0d4d1b1f3c11 --quota none --limits events=5000',
  ).action(async (id, { name, quota, spread, json, ...limitOptions }) => {
    const monthlySoftQuota = quota === 'none' ? null : quota;
    const body = { name, monthlySoftQuota, spread, ...patchOf(limitOptions) };
    const { admin } = await connect();
    print(await admin.json('changeTenant', { params: { id }, body }), TENANT, json);
  });
  return group;
}

function consoleAddress(connect: () => Promise<Connection>): Command {
  const command = new Command('console').description(
    'print the address of the console; a browser that opens this address is signed in with the admin token',
  );
  return example(command, 'questlog console').action(async () => {
    process.stdout.write(`${(await connect()).admin.signInUrl}\n`);
  });
}

function projects(connect: () => Promise<Connection>): Command {
  const group = new Command('projects').description('list, create and change projects (games)');
  list(group, connect, 'listProjects', PROJECT);
  example(
    group
      .command('create')
      .description('create a project of a tenant')
      .requiredOption('--tenant <id>', 'tenant of the project')
      .requiredOption('--name <name>', 'name of the project')
      .option('--revision <A|B>', 'revision of the contract (default: QUESTLOG_REVISION)')
      .option('--json', 'print JSON'),
    'questlog projects create --tenant 6d0c4b1e-1f0b-4c3f-8a59-0d4d1b1f3c11 --name "Fox Run"',
  ).action(async ({ tenant, name, revision, json }) => {
    const { admin } = await connect();
    const body = { tenantId: tenant, name, revision };
    print(await admin.json('createProject', { body }), PROJECT, json);
  });
  example(
    withLimitOptions(
      group
        .command('set')
        .description('change a project')
        .argument('<id>', 'id of the project')
        .option('--name <name>', 'name of the project')
        .option(
          '--retention <days>',
          'days per kind of data (events, sessions, reports, links, uploads), each a number or none; or none for all',
          retentionOf,
        ),
    ),
    'questlog projects set 0b0a4c0e-5a3f-4a55-9a3c-5b6f0d6f6a11 --limits events=1000,burst=10 --retention events=90',
  ).action(async (id, { name, json, retention, ...limitOptions }) => {
    const retentionDays = retention === 'none' ? null : retention;
    const body = { name, retentionDays, ...patchOf(limitOptions) };
    const { admin } = await connect();
    print(await admin.json('changeProject', { params: { id }, body }), PROJECT, json);
  });
  return group;
}

function tokens(connect: () => Promise<Connection>): Command {
  const group = new Command('tokens').description('list, create, rotate and revoke access tokens');
  list(group, connect, 'listTokens', TOKEN);
  example(
    group
      .command('create')
      .description('create a token, which is shown only once')
      .requiredOption('--project <id>', 'project of the token')
      .option(
        '--scopes <scopes>',
        'comma-separated: events:write, reports:write, read (default: events:write,reports:write)',
        (text) => text.split(','),
      )
      .option('--builds <ids>', 'comma-separated ids of the allowed builds (default: all builds)', (text) =>
        text.split(','),
      )
      .option('--expires <time>', 'time of expiry, ISO 8601 (default: never)')
      .option(
        '--per-address <requests>',
        'maximum requests per second per address (default: no limit)',
        wholeNumber,
      )
      .option('--json', 'print JSON'),
    'questlog tokens create --project 0b0a4c0e-5a3f-4a55-9a3c-5b6f0d6f6a11 --scopes events:write,reports:write',
  ).action(async ({ project, scopes, builds, expires, perAddress, json }) => {
    const limit = perAddress === undefined ? {} : { perAddress: { requestsPerSecond: perAddress } };
    const body = { projectId: project, scopes, buildIds: builds, expiresAt: expires, ...limit };
    const { admin } = await connect();
    print(await admin.json('createToken', { body }), ['id', 'token'], json);
  });
  rotate(group, connect);
  example(
    group.command('revoke').description('revoke a token').argument('<id>', 'id of the token, not its secret'),
    'questlog tokens revoke 7846b5f4-39dd-4381-b200-dbc9f59749ad',
  ).action(async (id) => {
    await (await connect()).admin.request('revokeToken', { params: { id } });
    process.stderr.write('revoked\n');
  });
  return group;
}

function readers(connect: () => Promise<Connection>): Command {
  const group = new Command('readers').description(
    'list, create, rotate and drop ClickHouse accounts that read only the rows of one tenant or project',
  );
  list(group, connect, 'listReaders', READER);
  example(
    group
      .command('create')
      .description('create an account, whose password is shown only once')
      .requiredOption('--tenant <id>', 'tenant whose rows the account reads')
      .option('--project <id>', 'project whose rows the account reads (default: all projects of the tenant)')
      .option('--name <name>', 'name of the person or the tool')
      .option('--expires <time>', 'time of expiry, ISO 8601 (default: never)')
      .option('--json', 'print JSON'),
    'questlog readers create --tenant 6d0c4b1e-1f0b-4c3f-8a59-0d4d1b1f3c11 --name Grafana',
  ).action(async ({ tenant, project, name, expires, json }) => {
    const { admin } = await connect();
    const body = { tenantId: tenant, projectId: project, name, expiresAt: expires };
    print(await admin.json('createReader', { body }), READER_ACCESS, json);
  });
  example(
    group
      .command('rotate')
      .description('replace the password of an account; the old password is invalid at once')
      .argument('<id>', 'id of the account')
      .option('--json', 'print JSON'),
    'questlog readers rotate 7846b5f4-39dd-4381-b200-dbc9f59749ad',
  ).action(async (id, { json }) => {
    const { admin } = await connect();
    print(await admin.json('rotateReader', { params: { id } }), READER_ACCESS, json);
  });
  example(
    group.command('drop').description('delete an account').argument('<id>', 'id of the account'),
    'questlog readers drop 7846b5f4-39dd-4381-b200-dbc9f59749ad',
  ).action(async (id) => {
    await (await connect()).admin.request('dropReader', { params: { id } });
    process.stderr.write('dropped\n');
  });
  return group;
}

function rotate(group: Command, connect: () => Promise<Connection>): void {
  example(
    group
      .command('rotate')
      .description('create a token that replaces an old token, and keep the old token valid for a while')
      .argument('<id>', 'id of the old token, not its secret')
      .requiredOption(
        '--overlap <seconds>',
        'time for which the old token stays valid; 0 revokes it at once',
        wholeNumber,
      )
      .option(
        '--expires <time>',
        'expiry of the new token, ISO 8601 or never (default: the same lifetime as the old token)',
      )
      .option('--json', 'print JSON'),
    'questlog tokens rotate 7846b5f4-39dd-4381-b200-dbc9f59749ad --overlap 86400',
  ).action(async (id, { overlap, expires, json }) => {
    const expiresAt = expires === 'never' ? null : expires;
    const { admin } = await connect();
    const body = { overlapSeconds: overlap, expiresAt };
    const token = await admin.json('rotateToken', { params: { id }, body });
    print(token, ['id', 'token', 'expiresAt', 'oldExpiresAt'], json);
  });
}

function list(
  group: Command,
  connect: () => Promise<Connection>,
  id: 'listTenants' | 'listProjects' | 'listTokens' | 'listReaders',
  columns: readonly string[],
): void {
  const what = group.name();
  const command = group.command('list').description(`list all ${what}`).option('--json', 'print JSON');
  example(command, `questlog ${what} list --json`).action(async ({ json }) => {
    printRows(await (await connect()).admin.json(id), columns, json);
  });
}

function print(entity: object, columns: readonly string[], json: boolean | undefined): void {
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
      'limits of events, requests and bytes per second, and the burst in seconds; or none',
      limitsOf,
    )
    .option('--suspend', 'reject all writes')
    .option('--resume', 'accept writes again')
    .option('--json', 'print JSON');
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
    if (field === undefined)
      throw new InvalidArgumentError('it must be none, or a list such as events=1000,burst=10');
    return [field, wholeNumber(value)];
  });
  return Object.fromEntries(entries);
}

function retentionOf(text: string): 'none' | NonNullable<ProjectPatch['retentionDays']> {
  if (text === 'none') return text;
  const entries = text.split(',').map((each) => {
    const [name = '', value = ''] = each.split('=');
    if (name === '' || value === '') {
      throw new InvalidArgumentError('it must be none, or a list such as events=90,reports=none');
    }
    return [name, value === 'none' ? null : wholeNumber(value)];
  });
  return Object.fromEntries(entries);
}

export function example(command: Command, line: string): Command {
  return command.addHelpText('after', `\nExample:\n  ${line}`);
}

export function wholeNumber(text: string): number {
  if (/^\d{1,15}$/.test(text)) return Number(text);
  throw new InvalidArgumentError('it must be a whole number');
}

function quotaOrNone(text: string): number | 'none' {
  return text === 'none' ? text : wholeNumber(text);
}
