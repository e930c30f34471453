/**
 * Tests the accounts of studios on a ClickHouse cluster: attacks that read another studio's rows, restarted and unavailable
 * nodes, new passwords, and configurations of ClickHouse that the accounts cannot use.
 */
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import {
  answeredFromOwnRows,
  answeredWithoutRows,
  rejectedForStudios,
} from '@questlog/runtime/clickhouse/chdb/testing/studioAttacks';
import {
  STUDIO_COLUMNS,
  type StudioColumn,
  studioRows,
} from '@questlog/runtime/clickhouse/chdb/testing/studioRows';
import { localName } from '@questlog/runtime/clickhouse/cluster/tables/clusterSchema';
import { migrateCluster } from '@questlog/runtime/clickhouse/cluster/tables/migrateCluster';
import { openMigrated } from '@questlog/runtime/clickhouse/migrate';
import type { StoreOptions } from '@questlog/runtime/clickhouse/store';
import { openServerAccounts } from '@questlog/runtime/clickhouse/studios/serverAccounts';
import { requireVisibleRows } from '@questlog/runtime/clickhouse/studios/visibleRows';
import { STUDIO_RULES, STUDIO_TABLES, type StudioReader } from '@questlog/runtime/clickhouse/studioTables';
import { isOlderVersion } from '@questlog/runtime/clickhouse/waitForClickHouse';
import { sha256Hex } from '@questlog/runtime/directory/directory';
import { StartRefused } from '@questlog/runtime/process/errors';
import { silentLogger } from '@questlog/runtime/process/logger';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import type { ClickHouseCluster } from './aClickHouseCluster.ts';
import { describeClickHouseCluster } from './describeClickHouseCluster.ts';

const MIGRATIONS = fileURLToPath(new URL('../../deploy/clickhouse', import.meta.url));
const KAFKA_PAGE = new URL('../../docs/operating/kafka.md', import.meta.url);
const [OWN, OTHER] = ['aaaaaaaa-0000-4000-8000-000000000001', 'bbbbbbbb-0000-4000-8000-000000000002'];
const [GAME, SECOND_GAME] = ['cccccccc-0000-4000-8000-000000000003', 'dddddddd-0000-4000-8000-000000000004'];
const SECRET = 'secret of the other studio';
const PASSWORD = 'studio';
const [DATABASE, SINGLE] = ['questlog', 'single'];

function anAccount(
  number: number,
  other: Partial<StudioReader> & { readonly password?: string | undefined } = {},
) {
  const { password = PASSWORD, ...fields } = other;
  const username = `reader-${String(number).padStart(8, '0')}-0000-4000-8000-000000000000`;
  const defaults = { username, sha256: sha256Hex(password), tenantId: OWN, projectId: null, expiresAt: null };
  return { ...defaults, ...fields };
}

const STUDIO = anAccount(1);
const PROJECT = anAccount(2, { projectId: GAME });
const OTHER_STUDIO = anAccount(3, { tenantId: OTHER });
const ACCOUNTS = [STUDIO, PROJECT, OTHER_STUDIO];
const SINGLE_STUDIO = anAccount(9);
/** Attacks that succeed in a ClickHouse that is too old for the accounts. */
const OLD_LEAKS = /mergeTreeIndex|merge\\x54reeIndex/;

interface Request {
  readonly username?: string | undefined;
  readonly password?: string | undefined;
  readonly [parameter: string]: string | undefined;
}

await describeClickHouseCluster('the accounts of studios on a ClickHouse cluster', (start) => {
  let cluster: ClickHouseCluster;
  let nodes: StoreOptions[];
  let accounts: ReturnType<typeof openAccounts>;
  let single: ReturnType<typeof openAccounts>;
  /** True if the ClickHouse of the cluster is new enough for accounts of studios. */
  let isSupported: boolean;
  beforeAll(async () => {
    cluster = await start();
    nodes = cluster.nodes.map(addressOf);
    await ask(0, `CREATE DATABASE ${DATABASE} ON CLUSTER ${cluster.name}`, { database: 'default' });
    await migrate();
    const address = { ...(nodes[0] as StoreOptions), database: SINGLE };
    await (await openMigrated(address, MIGRATIONS)).close();
    for (const [node, game, number] of [
      [0, GAME, 1],
      [2, SECOND_GAME, 2],
    ] as const) {
      await addRows(node, OWN, game, '1', number);
      await addRows(node, OTHER, OTHER, SECRET, 99);
      await addRows(0, OWN, game, '1', number, SINGLE);
    }
    await addRows(0, OTHER, OTHER, SECRET, 99, SINGLE);
    for (const node of nodes.keys()) await addReader(node);
    await syncReplicas();
    accounts = openAccounts();
    await accounts.set(ACCOUNTS);
    single = openAccounts({ nodes: [address], cluster: undefined, database: SINGLE });
    await single.set([SINGLE_STUDIO]);
    isSupported = !isOlderVersion(await ask(0, 'SELECT version()'), '26.7.6.5');
  });
  afterAll(async () => {
    await single?.close();
    await accounts?.close();
    await cluster?.[Symbol.asyncDispose]();
  });

  const addressOf = (node: string): StoreOptions => {
    const { origin, username, password } = new URL(node);
    return { url: origin, username, password, database: DATABASE };
  };

  /** Creates the tables on the nodes that lack the tables. */
  const migrate = (): Promise<void> => {
    const options = { name: cluster.name, nodes };
    return migrateCluster({ options, database: DATABASE, directory: MIGRATIONS, logger: silentLogger });
  };

  /** The kit and the image run an older ClickHouse than the accounts need, so the version is not checked. */
  const openAccounts = (other: Partial<Parameters<typeof openServerAccounts>[0]> = {}) => {
    const opened = openServerAccounts({
      ...{ nodes, cluster: cluster.name, database: DATABASE, logger: silentLogger, url: 'http://clickhouse' },
      ...{ unrestricted: [nodes[0]?.username ?? '', 'everything'], minVersion: '26.3' },
      // Most tests change accounts of a node themselves, so that a repair in between would disturb these tests.
      ...{ everyMs: 3_600_000, answerLimitMs: 60_000 },
      ...other,
    });
    const set = (list: readonly StudioReader[], caughtUp = async () => {}) => opened.set(list, caughtUp);
    return { ...opened, set };
  };

  const openForTest = (other: Parameters<typeof openAccounts>[0] = {}) => {
    const opened = openAccounts(other);
    onTestFinished(() => opened.close());
    return opened;
  };

  async function ask(
    node: number,
    query: string,
    { username = nodes[node]?.username, password = nodes[node]?.password, ...parameters }: Request = {},
  ): Promise<string> {
    const headers = { 'X-ClickHouse-User': String(username), 'X-ClickHouse-Key': String(password) };
    const search = new URLSearchParams({ database: DATABASE, ...(parameters as Record<string, string>) });
    const response = await fetch(`${nodes[node]?.url}/?${search}`, { method: 'POST', body: query, headers });
    const text = await response.text();
    return response.ok && !text.includes('__exception__') ? text.trimEnd() : `rejected: ${text}`;
  }

  async function addRows(
    node: number,
    tenant: string,
    project: string,
    text: string,
    offset: number,
    database = DATABASE,
  ) {
    const lines = (await ask(node, `${STUDIO_COLUMNS} FORMAT JSONEachRow`)).split('\n');
    const columns = lines.map((line): StudioColumn => JSON.parse(line));
    for (const [table, row] of studioRows(columns, { tenant, project, text, offset })) {
      const name = database === SINGLE ? table : localName(table);
      expect(await ask(node, `INSERT INTO ${name} FORMAT JSONEachRow ${row}`, { database })).toBe('');
    }
  }

  async function addReader(node: number): Promise<void> {
    expect(await ask(node, 'CREATE USER IF NOT EXISTS everything')).toBe('');
    expect(await ask(node, `GRANT SELECT ON ${DATABASE}.* TO everything`)).toBe('');
  }

  async function syncReplicas(): Promise<void> {
    const replicated = `SELECT name FROM system.tables WHERE database = '${DATABASE}' AND engine LIKE 'Replicated%'`;
    const sync = async (node: number): Promise<void> => {
      for (const table of (await ask(node, replicated)).split('\n'))
        expect(await ask(node, `SYSTEM SYNC REPLICA ${table}`)).toBe('');
    };
    await Promise.all([...nodes.keys()].map(sync));
  }

  async function attack(
    statement: string,
    account: StudioReader = STUDIO,
    node = 0,
    database = DATABASE,
  ): Promise<string> {
    const query = statement.replaceAll('@OTHER@', OTHER).replaceAll('@OWN@', OWN);
    const parameters = { database, param_t: 'questlog.events', param_x: '[]', param_y: "('a')" };
    const text = await ask(node, query, { username: account.username, password: PASSWORD, ...parameters });
    // An error repeats the statement, which can contain the id of the other studio.
    expect(text).not.toContain(SECRET);
    if (!text.startsWith('rejected')) expect(text).not.toContain(OTHER);
    return text;
  }

  test.each(STUDIO_TABLES)('an account reads only rows of its studio, on every node: %s', async (table) => {
    for (const node of nodes.keys()) {
      expect(await attack(`SELECT DISTINCT tenant_id FROM ${table}`, STUDIO, node)).toBe(OWN);
      expect(await attack(`SELECT * FROM ${table} WHERE tenant_id != '${OWN}'`, STUDIO, node)).toBe('');
      const ofProject = await attack(`SELECT count() FROM ${table}`, PROJECT, node);
      expect(ofProject).toBe(/^quota_usage/.test(table) ? '0' : '1');
    }
  });

  describe.each([
    { name: 'a cluster', database: DATABASE, account: STUDIO },
    { name: 'one server', database: SINGLE, account: SINGLE_STUDIO },
  ])('$name', ({ database, account }) => {
    const attackHere = (statement: string): Promise<string> =>
      attack(statement.replaceAll(DATABASE, database), account, 0, database);

    test.each(answeredWithoutRows)('returns no row of the other studio: %s', async (statement) => {
      expect(await attackHere(statement)).toMatch(/^$|^rejected: Code: (10|36|46|47|60|164|182|497)\. /);
    });

    // A Distributed table ignores the rows of other shards if a query with a window function reads no column.
    const answered = answeredFromOwnRows.filter(([statement]) => !statement.includes('OVER ()'));
    test.each(answered)('uses only own rows: %s', async (statement, answer) => {
      const text = await attackHere(statement);
      // An account cannot change the setting, and a Distributed table of views has no PREWHERE.
      if (!/^rejected: Code: (164|182)\. /.test(text)) expect(text).toBe(answer);
    });

    test.for(rejectedForStudios)('reveals no row of the other studio: %s', async (statement, { skip }) => {
      if (OLD_LEAKS.test(statement) && !isSupported)
        return skip('this ClickHouse is too old for accounts of studios (ClickHouse#115304)');
      await attackHere(statement);
    });

    test.each(Object.keys(STUDIO_RULES).filter((table) => STUDIO_RULES[table] === 'hidden'))(
      'an account cannot read a table for operators: %s',
      async (table) => {
        expect(await attackHere(`SELECT count() FROM ${table}`)).toMatch(/^rejected: Code: 497\. /);
      },
    );

    test('an account sees no size of a table', async () => {
      const sizes = 'SELECT max(total_rows), max(total_bytes) > 0, max(lifetime_rows) FROM system.tables';
      expect(await attackHere(sizes)).toMatch(/^\\N\t(?:0|\\N)\t\\N$/);
      expect(await attackHere('SELECT max(data_compressed_bytes) FROM system.columns')).toBe('0');
      const views = "SELECT count() > 5 FROM system.tables WHERE engine IN ('View', 'Distributed')";
      expect(await attackHere(views)).toBe('1');
    });
  });

  test.each(
    'parts parts_columns merges mutations events metrics query_log part_log processes users row_policies replicas'.split(
      ' ',
    ),
  )('an account cannot read system.%s', async (table) => {
    expect(await attack(`SELECT * FROM system.${table} LIMIT 1`)).toMatch(/^rejected: Code: (60|497)\. /);
  });

  test('every readable table and view has a policy for each account and for the product', async () => {
    for (const node of nodes.keys()) {
      const tables = (await ask(node, 'SHOW TABLES')).split('\n');
      const readable = tables.filter((table) => STUDIO_TABLES.includes(table.replace(/_(local|shard)$/, '')));
      for (const { username } of ACCOUNTS) {
        const granted = `SELECT table FROM system.grants WHERE user_name = '${username}' ORDER BY table`;
        expect((await ask(node, granted)).split('\n')).toEqual(readable);
        for (const policy of [username, `${username}_restrictive`, 'questlog_all']) {
          const policies = `SELECT table FROM system.row_policies WHERE short_name = '${policy}' AND database = '${DATABASE}' ORDER BY table`;
          expect((await ask(node, policies)).split('\n')).toEqual(readable);
        }
      }
    }
  });

  const seesAllRows = async (node: number): Promise<void> => {
    for (const table of STUDIO_TABLES)
      for (const username of [nodes[node]?.username, 'everything']) {
        const password = username === 'everything' ? '' : nodes[node]?.password;
        const answer = await ask(node, `SELECT uniqExact(tenant_id) FROM ${table}`, { username, password });
        expect([table, username, answer]).toEqual([table, username, '2']);
      }
  };

  test('the product and the account of all studios read all rows on every node', async () => {
    for (const node of nodes.keys()) await seesAllRows(node);
  });

  test('an account has its own quota and cannot raise its limits', async () => {
    const limits = "SELECT getSetting('max_execution_time'), getSetting('max_concurrent_queries_for_user')";
    expect(await attack(limits)).toBe('30\t2');
    expect(await attack('SELECT max_execution_time FROM system.quota_usage')).toBe('3600');
    const memory = ['max_memory_usage = 0', 'max_threads = 17', 'max_block_size = 65537'];
    for (const setting of ['max_execution_time = 3601', 'use_query_cache = 1', 'log_queries = 0', ...memory])
      expect(await attack(`SELECT 1 SETTINGS ${setting}`)).toMatch(/^rejected: Code: (164|452)\. /);
  });

  test('the query log shows which account has sent a statement, without literals', async ({ skip }) => {
    await attack("SELECT count() FROM sessions WHERE metadata != 'player-13'");
    await ask(0, 'SYSTEM FLUSH LOGS');
    if ((await ask(0, 'EXISTS system.query_log')) === '0') return skip('this ClickHouse has no query_log');
    const [, query = ''] =
      /```sql\n(SELECT .*?query_log.*?)\n```/s.exec(readFileSync(KAFKA_PAGE, 'utf8')) ?? [];
    const log = await ask(0, query);
    expect(log).toMatch(
      new RegExp(`${STUDIO.username}\tSELECT count\\(\\) FROM .?sessions.? WHERE .*\t0\t2\t`),
    );
    expect(log).not.toContain('player-13');
  });

  test('during a change of the password, one of the passwords is valid, and no other row is visible', async () => {
    const passwords = ['first', 'second'];
    const login = (password: string) => ({
      username: 'reader-00000004-0000-4000-8000-000000000000',
      password,
    });
    const rotate = (password: string | undefined) => accounts.set([...ACCOUNTS, anAccount(4, { password })]);
    await rotate(passwords[0]);
    let isDone = false;
    const rotated = (async () => {
      for (let round = 1; round < 8; round++) await rotate(passwords[round % 2]);
      isDone = true;
    })();
    while (!isDone) {
      const [first, second] = await Promise.all(
        passwords.map((password) => ask(1, 'SELECT DISTINCT tenant_id FROM sessions', login(password))),
      );
      for (const answer of [first, second]) expect(answer).toMatch(new RegExp(`^${OWN}$|Code: 516`));
    }
    await rotated;
    for (const node of nodes.keys()) {
      expect(await ask(node, 'SELECT 1', login('first'))).toContain('Code: 516');
      expect(await ask(node, 'SELECT 1', login('second'))).toBe('1');
    }
  });

  test('rejects an expired account and removes every object of a dropped account', async () => {
    const [expired, valid] = [
      anAccount(5, { expiresAt: Date.now() - 1_000 }),
      anAccount(6, { expiresAt: Date.now() + 60_000 }),
    ];
    await accounts.set([...ACCOUNTS, expired, valid]);
    expect(await attack('SELECT 1', expired)).toContain('Code: 516');
    expect(await attack('SELECT count() FROM events', valid)).toBe('2');
    await accounts.set(ACCOUNTS);
    expect(await attack('SELECT 1', valid)).toContain('Code: 516');
    const left = ['users', 'row_policies', 'quotas'].map(
      (table) => `(SELECT countIf(match(name, 'reader-0000000[56]')) FROM system.${table})`,
    );
    for (const node of nodes.keys()) expect(await ask(node, `SELECT ${left.join(' + ')}`)).toBe('0');
  });

  test('a process drops the accounts that an earlier process created', async () => {
    const earlier = openAccounts();
    await earlier.set([...ACCOUNTS, anAccount(7)]);
    await earlier.close();
    await accounts.set(ACCOUNTS);
    expect(await attack('SELECT 1', anAccount(7))).toContain('Code: 516');
  });

  test('an operator’s policy for all users shows no row of another studio', async () => {
    const tables = STUDIO_TABLES.flatMap((table) => [table, localName(table), `${table}_shard`]);
    const existing = async (node: number) => {
      const names = (await ask(node, 'SHOW TABLES')).split('\n').filter((table) => tables.includes(table));
      return [...names.map((table) => `${DATABASE}.${table}`), 'system.tables'].join(', operator ON ');
    };
    for (const node of nodes.keys()) {
      const policies = await existing(node);
      const permit = `CREATE ROW POLICY operator ON ${policies} USING 1 TO ALL EXCEPT everything`;
      expect(await ask(node, permit)).toBe('');
      onTestFinished(async () => void (await ask(node, `DROP ROW POLICY operator ON ${policies}`)));
    }
    for (const node of nodes.keys())
      for (const table of STUDIO_TABLES)
        expect([table, await attack(`SELECT DISTINCT tenant_id FROM ${table}`, STUDIO, node)]).toEqual([
          table,
          OWN,
        ]);
    expect(await attack('SELECT max(total_rows) FROM system.tables')).toMatch(/^(?:0|\\N)$/);
    await seesAllRows(0);
  });

  const newAccount = anAccount(11);

  test('a process with an old directory neither creates a dropped account nor drops a new account', async () => {
    const current = [...ACCOUNTS, anAccount(12)];
    await accounts.set(current);
    const ids = `SELECT name, id FROM system.users WHERE startsWith(name, 'reader-') ORDER BY name`;
    const before = await ask(0, ids);
    const behind = openForTest();
    let caught: Promise<void> | undefined;
    const caughtUp = async () => {
      caught ??= behind.set(current, caughtUp);
    };
    await behind.set([...ACCOUNTS, newAccount], caughtUp);
    await caught;
    expect(await ask(0, ids)).toBe(before);
    await accounts.set(ACCOUNTS);
  });

  test('an account that is dropped during its creation never gets grants', async () => {
    const creating = openForTest({ nodes: nodes.slice(0, 1) });
    const grants: string[] = [];
    let dropped: Promise<void> | undefined;
    const caughtUp = async () => {
      grants.push(
        await ask(0, `SELECT count() FROM system.grants WHERE user_name = '${newAccount.username}'`),
      );
      if (grants.length === 2) dropped = creating.set(ACCOUNTS, caughtUp);
    };
    await creating.set([newAccount, ...ACCOUNTS], caughtUp);
    await dropped;
    expect(grants.slice(0, 3)).toEqual(['0', '0', '0']);
    expect(await attack('SELECT 1', newAccount)).toContain('Code: 516');
  });

  test('drops an account whose policies another process removes during the creation', async () => {
    await accounts.set([...ACCOUNTS, newAccount]);
    const creating = openForTest({ nodes: nodes.slice(0, 1) });
    let calls = 0;
    const caughtUp = async () => {
      calls += 1;
      if (calls !== 2) return;
      const policy = `\`${newAccount.username}\` ON ${DATABASE}.sessions`;
      expect(await ask(0, `DROP ROW POLICY ${policy}`)).toBe('');
    };
    const created = creating.set([newAccount, ...ACCOUNTS], caughtUp);
    await expect(created).rejects.toThrow('another process has removed policies');
    expect(await attack('SELECT 1', newAccount)).toContain('Code: 516');
    await accounts.set(ACCOUNTS);
  });

  test('repairs an account that another process has changed, and drops an account without a quota', async () => {
    const [current, old] = [anAccount(4), anAccount(4, { password: 'old' })];
    await accounts.set([...ACCOUNTS, current]);
    await openForTest().set([...ACCOUNTS, old]);
    expect(await attack('SELECT 1', current)).toContain('Code: 516');
    await accounts.set([...ACCOUNTS, current]);
    expect(await attack('SELECT 1', current)).toBe('1');
    await ask(0, `REVOKE SELECT ON ${DATABASE}.sessions FROM \`${current.username}\``);
    await accounts.set([...ACCOUNTS, current]);
    expect(await attack('SELECT count() FROM sessions', current)).toBe('2');
    expect(await ask(0, `DROP QUOTA \`${DATABASE}.${current.username}\``)).toBe('');
    await accounts.set(ACCOUNTS);
    expect(await attack('SELECT 1', current)).toContain('Code: 516');
  });

  test('starts although a policy hides rows of an operator’s table', async () => {
    expect(await ask(2, 'CREATE TABLE `my-table` ENGINE = MergeTree ORDER BY () AS SELECT 1 AS one')).toBe(
      '',
    );
    onTestFinished(async () => void (await ask(2, 'DROP TABLE `my-table`')));
    expect(await ask(2, `CREATE ROW POLICY hidden ON ${DATABASE}.\`my-table\` USING 0 TO ALL`)).toBe('');
    onTestFinished(async () => void (await ask(2, `DROP ROW POLICY hidden ON ${DATABASE}.\`my-table\``)));
    await requireVisibleRows(nodes);
  });

  test('does not start if a policy hides the product’s rows', async () => {
    await requireVisibleRows(nodes);
    const product = nodes[2]?.username;
    expect(await ask(2, `ALTER ROW POLICY questlog_all ON ${DATABASE}.sessions USING 0 TO ${product}`)).toBe(
      '',
    );
    const start = requireVisibleRows(nodes);
    await expect(start).rejects.toThrow(StartRefused);
    await expect(start).rejects.toThrow('a row policy hides the rows of sessions');
    const repaired = `ALTER ROW POLICY questlog_all ON ${DATABASE}.sessions USING 1 TO ${product}, everything`;
    expect(await ask(2, repaired)).toBe('');
  });

  test('names the version and the permissions that the accounts need', async () => {
    const tooOld = /^ClickHouse [\d.]+ is too old .* need 99.1 or newer$/;
    expect(await openForTest({ minVersion: '99.1' }).refusal()).toMatch(tooOld);
    const onCluster = `ON CLUSTER ${cluster.name}`;
    await ask(0, `CREATE USER limited ${onCluster} IDENTIFIED BY 'x'`);
    await ask(0, `GRANT ${onCluster} ALL ON ${DATABASE}.* TO limited`);
    const login = { username: 'limited', password: 'x' };
    const limited = openForTest({ nodes: [{ ...(nodes[0] as StoreOptions), ...login }] });
    expect(await limited.refusal()).toContain('GRANT ACCESS MANAGEMENT ON *.* TO limited');
    await limited.set([]);
    await ask(0, `GRANT ${onCluster} ACCESS MANAGEMENT ON *.*, REMOTE ON *.*, SELECT ON system.* TO limited`);
    expect(await limited.refusal()).toBeUndefined();
    const lacksOption = 'GRANT SELECT ON questlog.* TO limited WITH GRANT OPTION: ClickHouse: ';
    await expect(limited.set([...ACCOUNTS, anAccount(10)])).rejects.toThrow(lacksOption);
    expect(await attack('SELECT count() FROM sessions', anAccount(10))).toMatch(
      /^rejected: Code: (497|516)\. /,
    );
    // Without the permissions, the account is still in ClickHouse after the drop.
    await ask(0, `REVOKE ${onCluster} SELECT ON system.* FROM limited`);
    await expect(limited.set([])).rejects.toThrow('GRANT ACCESS MANAGEMENT ON *.* TO limited');
    expect(limited.warning()).toContain('GRANT ACCESS MANAGEMENT ON *.* TO limited');
    await accounts.set(ACCOUNTS);
  });

  test('an unavailable node gets new accounts after its restart', async ({ skip }) => {
    const { faults } = cluster;
    if (faults === undefined) return skip('this cluster cannot be broken');
    await faults.kill(1);
    const created = anAccount(8);
    const repairing = openForTest({ everyMs: 1_000 });
    await repairing.set([...ACCOUNTS, created]);
    expect(repairing.warning()).toContain(nodes[1]?.url);
    expect(await attack('SELECT DISTINCT tenant_id FROM sessions', created, 2)).toBe(OWN);
    await repairing.set([]);
    expect(repairing.warning()).toContain(nodes[1]?.url);
    await repairing.set([...ACCOUNTS, created]);
    await faults.start(1);
    await addReader(1);
    const readAt = () => attack('SELECT DISTINCT tenant_id FROM events', created, 1);
    await expect.poll(readAt, { timeout: 30_000 }).toBe(OWN);
    await expect.poll(() => repairing.warning()).toBeUndefined();
  });

  test('without a secret, a cluster cannot have accounts, and the first policy hides no row of the product', async ({
    skip,
  }) => {
    const { faults } = cluster;
    if (faults === undefined) return skip('this cluster cannot be broken');
    const { username, password } = nodes[3] ?? {};
    const replicas = (await ask(3, `SELECT port FROM system.clusters WHERE cluster = '${cluster.name}'`))
      .split('\n')
      .map(
        (port) =>
          `<replica><host>127.0.0.1</host><port>${port}</port><user>${username}</user><password>${password}</password></replica>`,
      );
    await faults.configure(
      3,
      `<clickhouse>
        <remote_servers><without_secret><shard>${replicas.join('')}</shard></without_secret></remote_servers>
        <access_control_improvements>
          <users_without_row_policies_can_read_rows>false</users_without_row_policies_can_read_rows>
        </access_control_improvements>
      </clickhouse>`,
    );
    await addReader(3);
    const withoutSecret = openForTest({ cluster: 'without_secret', nodes: nodes.slice(3) });
    expect(await withoutSecret.refusal()).toContain('need a <secret> for the cluster without_secret');
    await openForTest({ everyMs: 1_000 }).set(ACCOUNTS);
    const read = () => attack('SELECT DISTINCT tenant_id FROM events', STUDIO, 3);
    await expect
      .poll(
        async () => {
          expect(await ask(3, 'SELECT uniqExact(tenant_id) FROM sessions')).toBe('2');
          return await read();
        },
        { timeout: 30_000 },
      )
      .toBe(OWN);
    await seesAllRows(3);
  });

  test('a replacement node and a new shard get the accounts with their passwords and policies', async ({
    skip,
  }) => {
    const { faults } = cluster;
    if (faults === undefined) return skip('this cluster gets no new nodes');
    const [newShard = ''] = await faults.addShard(1, { restart: false });
    // Restarts the other nodes for the new shard and for the replacement.
    nodes[1] = addressOf(await faults.replace(1));
    nodes.push(addressOf(newShard));
    const empty = [1, nodes.length - 1];
    await migrate();
    for (const node of empty) await addReader(node);
    const repairing = openForTest({ everyMs: 1_000 });
    await repairing.set(ACCOUNTS);
    await addRows(nodes.length - 1, OTHER, OTHER, SECRET, 99);
    for (const node of empty) {
      // A query fails if it uses a connection to a node that has restarted meanwhile.
      const answers = (answer: () => Promise<string>) => expect.poll(answer, { timeout: 30_000 });
      await answers(() => attack('SELECT DISTINCT tenant_id FROM events', STUDIO, node)).toBe(OWN);
      await expect.poll(() => repairing.warning(), { timeout: 30_000 }).toBeUndefined();
      for (const table of STUDIO_TABLES)
        await answers(() => attack(`SELECT countIf(tenant_id != '${OWN}') FROM ${table}`, STUDIO, node)).toBe(
          '0',
        );
      expect(await ask(node, 'SELECT 1', { username: STUDIO.username, password: 'other' })).toContain(
        'Code: 516',
      );
      await answers(() => ask(node, 'SELECT uniqExact(tenant_id) FROM events')).toBe('2');
    }
  });
});
