/** Tests `questlog <command>`: the effects on a running product, the output, and the exit codes after wrong usage. */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { expectAnswer, QUERY_SETTINGS } from '../dataGuide/expectAnswer.ts';
import { expectedAnswers } from '../dataGuide/expectedAnswers.ts';
import { questionsOfGuide } from '../dataGuide/guidePage.ts';
import { simulatedSessions } from '../dataGuide/simulatedGame.ts';
import { aKey, events, type TestProject } from './builders.ts';
import { ownEnvironment } from './product.ts';
import {
  aStranger,
  atTerminal,
  type Ended,
  LAUNCHER,
  questlogCommand,
  reaching,
  testAtTerminal,
} from './questlogCommand.ts';
import { sharedProduct } from './sharedProduct.ts';

const shared = sharedProduct();
let game: TestProject;
let folder: string;

beforeAll(async () => {
  game = await shared.aProject({ revision: 'A' });
  folder = mkdtempSync(join(tmpdir(), 'questlog-command-line-'));
});

afterAll(() => rmSync(folder, { recursive: true, force: true }));

function run(args: readonly string[], { input = '', env = {} } = {}): Promise<Ended> {
  return questlogCommand(args, { input, env: { ...reaching(shared.product, game, folder), ...env } });
}

async function runSuccessfully(args: readonly string[], input = ''): Promise<string> {
  const { code, stdout, stderr } = await run(args, { input });
  expect(stderr).not.toMatch(/Warning/);
  expect({ code, stderr }).toEqual({ code: 0, stderr: expect.any(String) });
  return stdout;
}

test('creates, lists, changes, and revokes a tenant, a project, a token, and a reader', async () => {
  const tenant = JSON.parse(
    await runSuccessfully(['tenants', 'create', '--name', 'Blue Fox', '--quota', '9', '--json']),
  );
  const project = JSON.parse(
    await runSuccessfully(['projects', 'create', '--tenant', tenant.id, '--name', 'Fox Run', '--json']),
  );
  const token = JSON.parse(
    await runSuccessfully(['tokens', 'create', '--project', project.id, '--scopes', 'read', '--json']),
  );
  const listed = JSON.parse(await runSuccessfully(['tokens', 'list', '--json']));

  expect(tenant).toMatchObject({ name: 'Blue Fox', monthlySoftQuota: 9 });
  expect(token.token).toMatch(/^qlt_/);
  expect(listed).toContainEqual(expect.objectContaining({ id: token.id, scopes: ['read'] }));
  expect(await runSuccessfully(['tenants', 'set', tenant.id, '--quota', 'none'])).toMatch(/Blue Fox +- /);
  const set = ['projects', 'set', project.id];
  expect(
    JSON.parse(await runSuccessfully([...set, '--limits', 'events=5,burst=2', '--suspend', '--json'])),
  ).toMatchObject({
    limits: { eventsPerSecond: 5, requestsPerSecond: null, bytesPerSecond: null, burstSeconds: 2 },
    suspended: true,
  });
  expect(JSON.parse(await runSuccessfully([...set, '--limits', 'none', '--resume', '--json']))).toMatchObject(
    {
      ...{ limits: null, suspended: false },
    },
  );
  const scope = ['--tenant', tenant.id, '--project', project.id, '--expires', '2199-01-01'];
  const reader = JSON.parse(await runSuccessfully(['readers', 'create', ...scope, '--name', 'BI', '--json']));
  expect(reader).toMatchObject({ tenantId: tenant.id, projectId: project.id, database: 'questlog' });
  expect(await runSuccessfully(['readers', 'rotate', reader.id])).toContain(reader.username);
  await runSuccessfully(['readers', 'drop', reader.id]);
  expect(await runSuccessfully(['readers', 'list'])).not.toContain(reader.id);
  const folder = ['--output', 's3://no-bucket', '--every-hours', '24'];
  const created = await runSuccessfully([
    'exports',
    'create',
    '--project',
    project.id,
    '--kind',
    'links',
    ...folder,
  ]);
  const { id: exportId, path } = JSON.parse(created);
  expect(await runSuccessfully(['exports', 'list'])).toContain(path);
  expect(JSON.parse(await runSuccessfully(['exports', 'show', exportId]))).toMatchObject({ everyHours: 24 });
  await runSuccessfully(['exports', 'delete', exportId]);
  expect(await runSuccessfully(['exports', 'list'])).not.toContain(exportId);
  await runSuccessfully(['tokens', 'revoke', token.id]);
  expect(await runSuccessfully(['tokens', 'list'])).not.toContain(token.id);
});

test('console prints the URL of the console with the admin token', async () => {
  const { adminUrl, adminToken } = shared.product.credentials;
  const address = new URL((await runSuccessfully(['console'])).trim());
  expect(await (await fetch(address)).text()).toContain('id="console"');
  expect([address.origin, address.hash]).toEqual([adminUrl, `#token=${adminToken}`]);
});

describe('send', () => {
  test('stores the lines of a file in batches, byte for byte', async () => {
    const payload = '{"big":12345678901234567890, "pi" : 3.140}';
    const lines = events(450, { sessionId: game.sessionId, eventType: 'sent' }).map((event) =>
      JSON.stringify({ ...event, payload: {} }).replace('"payload":{}', `"payload":${payload}`),
    );
    writeFileSync(join(folder, 'events.ndjson'), `${lines.join('\n')}\n\n`);

    const { code, stderr } = await run(['send', '--file', join(folder, 'events.ndjson')]);

    expect({ code, stderr }).toEqual({ code: 0, stderr: '450 events stored\n' });
    await game.get(`/v1/sessions/${game.sessionId}/events`);
    const stored = await runSuccessfully(
      ['sql', '--format', 'TSVRaw'],
      `SELECT count(), any(payload) FROM events WHERE project_id = '${game.projectId}' AND event_type = 'sent'`,
    );
    expect(stored).toBe(`450\t${payload}\n`);
  });

  test('names the line that is not an event, and the rejected field', async () => {
    const noJson = await run(['send', '--file', '-'], { input: '{"eventType":"a"}\nnot json\n' });
    const rejected = await run(['send', JSON.stringify({ sessionId: game.sessionId, eventType: 7 })]);

    expect(noJson).toMatchObject({ code: 1, stderr: expect.stringContaining('line 2 is not a JSON object') });
    expect(rejected).toMatchObject({ code: 1, stderr: expect.stringContaining('eventType') });
  });
});

test('trail shows a report, its missing sequence numbers, and its events', async () => {
  const session = await shared.aProject({ revision: 'A' });
  const numbered = events(3, { sessionId: session.sessionId }).map((event, i) => ({
    ...event,
    sequence: 1 + 2 * i,
  }));
  const payload = '{"big":12345678901234567890, "pi" : 3.140}';
  await session.post(JSON.stringify(numbered).replace('{"n":0}', payload));
  const filed = await session.report({ sessionId: session.sessionId, report: { title: 'Stuck\u001b[2J' } });
  const env = { QUESTLOG_TOKEN: session.token };
  await session.get(`/v1/reports/${filed.json().id}`);

  const shown = await run(['trail', filed.json().id], { env });
  const listed = await run(['trail', filed.json().id, '--json'], { env });

  expect(shown.stderr).toContain('Stuck\uFFFD[2J (filed');
  expect(shown.stderr).toContain('3 numbered events of its session, missing: 2, 4');
  expect(shown.stdout).toContain('{"big":12345678901234567890,"pi":3.140}');
  expect(listed.stdout).toContain(`"payload":${payload},`);
  expect(JSON.parse(listed.stdout).map((event: { sequence: number }) => event.sequence)).toEqual([1, 3, 5]);
});

test('quota prints the usage of each tenant and the events over quota', async () => {
  const small = await shared.aProject({ revision: 'A', monthlySoftQuota: 2 });
  const answer = await small.post(events(5, { sessionId: small.sessionId }));
  await small.get(`/v1/events/${answer.json()[0].id}`);
  await expect
    .poll(async () => JSON.parse(await runSuccessfully(['quota', '--json'])), { timeout: 20_000 })
    .toContainEqual(expect.objectContaining({ id: small.tenantId, used: 5, monthlySoftQuota: 2, over: 3 }));
});

describe('verify', () => {
  test('reports no difference if nothing is missing, and names an event deleted from ClickHouse', async () => {
    const studio = await shared.aProject({ revision: 'B' });
    const own = ['verify', '--from', '10m', '--tenant', studio.tenantId, '--json'];
    const key = { 'Idempotency-Key': aKey() };
    for (const _ of [1, 2]) await studio.post(events(3), key);
    await studio.post([{ eventType: 7 }]);
    const [first] = (await studio.post(events(2))).json();
    await studio.get(`/v1/events/${first.id}`);

    const beforeDelete = (await runSuccessfully(own)).trim();
    await runAsWriter(`DELETE FROM events WHERE id = '${first.id}'`);
    const [row] = await shared.product.sql<{ log_partition: number; log_offset: string }>(
      `SELECT log_partition, log_offset FROM events WHERE tenant_id = '${studio.tenantId}' AND over_quota = false
       ORDER BY log_offset DESC LIMIT 1`,
    );
    const [afterDelete, table] = await Promise.all([run(own), run(own.slice(0, -1))]);

    const five = { records: 2, events: 5 };
    const ledgerSums = async () => {
      const { minutes } = (
        await shared.product.admin('GET', `/admin/ledger?tenant=${studio.tenantId}`)
      ).json();
      const sum = (name: string) =>
        minutes.reduce((total: number, minute: Record<string, number>) => total + (minute[name] ?? 0), 0);
      return ['acceptedEvents', 'loggedEvents', 'projectedEvents', 'missingEvents'].map(sum);
    };
    await expect.poll(ledgerSums).toEqual([5, 5, 5, 0]);
    expect(JSON.parse(beforeDelete)).toMatchObject({
      kind: 'summary',
      logged: five,
      projected: five,
      differences: 0,
    });
    expect(afterDelete.code).toBe(1);
    const lines = afterDelete.stdout
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line));
    const summary = lines.pop();
    // After the minute of the deleted row has ended, the count of the minute also differs from the rows.
    const [missing, ...miscounted] = lines;
    expect(missing).toMatchObject({
      ...{ what: 'missing', tenantId: studio.tenantId, expected: 2, found: 1 },
      ...{ partition: row?.log_partition, offset: Number(row?.log_offset) },
    });
    for (const { what, ...counts } of miscounted) {
      expect(what).toBe('miscounted');
      expect(counts).toMatchObject({ tenantId: studio.tenantId, expected: 4, found: 5 });
    }
    expect(summary).toMatchObject({ logged: five, differences: lines.length, isWhole: true });
    expect(table).toMatchObject({ code: 1, stdout: expect.stringMatching(/^what[\s\S]*\nmissing +/) });
    expect(table.stderr).toMatch(/[12] difference/);
  });

  test('is exit code 2 if the time is missing or invalid', async () => {
    const wrong = await Promise.all([run(['verify']), run(['verify', '--from', 'yesterday'])]);
    expect(wrong.map(({ code }) => code)).toEqual([2, 2]);
  });
});

/** Runs a statement as a user of ClickHouse with write access. */
async function runAsWriter(sql: string): Promise<void> {
  const { url, database, username, password } = shared.product.credentials.clickhouse;
  const headers = { 'X-ClickHouse-User': username, 'X-ClickHouse-Key': password };
  const answer = await fetch(`${url}/?database=${database}`, { method: 'POST', headers, body: sql });
  expect({ status: answer.status, text: await answer.text() }).toEqual({ status: 200, text: '' });
}

describe('simulate', () => {
  test('stores each event and report of its days once, and the data guide’s queries return the expected answers', async () => {
    const [players, seed] = [14, 8];
    const days = ['--players', `${players}`, '--days', '3', '--speed', 'max', '--seed', `${seed}`];
    const { tenantId, projectId, from, to, sent, held } = JSON.parse(
      await runSuccessfully(['simulate', ...days, '--json']),
    );

    expect(held).toEqual(sent);
    const [{ records } = {}] = await shared.product.sql(
      `SELECT uniqExact(log_partition, log_offset) AS records FROM events WHERE project_id = '${projectId}'`,
    );
    expect(Number(records)).toBeLessThan(sent.events / 20);
    expect([dayFromToday(0), dayFromToday(-1)]).toContain(to);
    const period = { from: Date.parse(from), to: Date.parse(to) };
    const expected = expectedAnswers(simulatedSessions({ seed, players }, period), period);
    const parameters = { tenant: tenantId, project: projectId, from, to };
    await Promise.all(
      questionsOfGuide().map(async ({ number, title, sql }) => {
        const answer = await shared.product.admin('POST', '/admin/sql', {
          query: `${sql}\n${QUERY_SETTINGS}`,
          parameters,
        });
        expectAnswer(answer.json().data, expected[number], title);
      }),
    );
    const params = Object.entries(parameters).flatMap(([name, value]) => ['--param', `${name}=${value}`]);
    const output = await runSuccessfully(
      ['sql', '--format', 'JSONEachRow', ...params],
      questionsOfGuide()[0]?.sql,
    );
    const rows = output.trim().split('\n');
    expectAnswer(
      rows.map((line) => JSON.parse(line)),
      expected[1],
    );
  });

  testAtTerminal('shows its progress, and the day on which Ctrl-C stopped it', async () => {
    const days = ['--players', '4', '--days', '9999', '--speed', 'max', '--seed', '7'];
    const url = await aStoreOfGames();
    const env = { QUESTLOG_ADMIN_URL: url, QUESTLOG_URL: url };
    const playing = atTerminal(['simulate', ...days, '--json'], env);
    await playing.shows(/day [\d,]+ of 9,999, [\d,]+ events, [\d,]+ reports?, [\d,]+ a second/);
    playing.type('\x03');
    const { code, screen } = await playing.ended();

    expect(code).toBe(130);
    expect(screen).toMatch(/stopped on day [\d,]+ of 9,999; sent [\d,]+ events, [\d,]+ reports?\r\n/);
    const { stopped, sent, held } = JSON.parse(/\{[\s\S]*\}/.exec(screen)?.[0] ?? '');
    expect({ stopped, held }).toEqual({ stopped: true, held: sent });
  });

  test('prints the sent counts and the reason if a live game is rejected', async () => {
    const url = await aStranger((_, response) =>
      response.writeHead(400).end('{"detail": "not\\u001b[2J here"}'),
    );

    const ended = await run(['simulate', '--players', '50', '--minutes', '1'], {
      env: { QUESTLOG_URL: url },
    });

    expect(ended).toEqual({
      code: 1,
      stdout: '',
      stderr: 'stopped; sent 0 events, 0 reports\nquestlog: not\uFFFD[2J here\n',
    });
  });
});

test('incorrect usage is exit code 2', async () => {
  const [unknown, empty] = await Promise.all([run(['tenant', 'list']), run(['sql'])]);

  expect(unknown).toMatchObject({ code: 2, stderr: expect.stringContaining("unknown command 'tenant'") });
  expect(empty).toMatchObject({ code: 2, stderr: expect.stringContaining('a statement is needed') });
});

test('a rejected change is exit code 1 with the field, and an unreachable address is reported', async () => {
  const unreachable = await run(['tenants', 'list'], { env: { QUESTLOG_ADMIN_URL: 'http://127.0.0.1:9' } });
  const rejected = await run(['projects', 'create', '--tenant', 'none', '--name', 'x']);
  const unset = await run(['tenants', 'list'], { env: { QUESTLOG_ADMIN_URL: '' } });

  expect(unreachable).toMatchObject({
    code: 1,
    stderr: expect.stringContaining('does not answer at http://127.0.0.1:9'),
  });
  expect(rejected).toMatchObject({ code: 1, stderr: expect.stringContaining('tenantId') });
  expect(unset).toMatchObject({ code: 1, stderr: expect.stringContaining('QUESTLOG_ADMIN_URL') });
});

test('the saved token is never sent to an address other than the saved one', async () => {
  const saved = { ...shared.product.credentials, adminToken: 'a saved secret' };
  writeFileSync(join(folder, 'dev-credentials.json'), JSON.stringify(saved));
  const authorization = Promise.withResolvers<string | undefined>();
  const url = await aStranger((request, response) => {
    authorization.resolve(request.headers.authorization);
    response.end('[]');
  });

  await run(['tenants', 'list'], { env: { QUESTLOG_ADMIN_URL: url, QUESTLOG_ADMIN_TOKEN: '' } });

  expect((await authorization.promise)?.trim()).toBe('Bearer');
});

test('completion prints a script that bash can source', () => {
  const script = `source <("$0" "$1" completion bash)
    COMP_WORDS=(questlog tok); COMP_CWORD=1; _questlog; echo "\${COMPREPLY[@]}"; complete -p questlog`;
  const env = { ...ownEnvironment(), HOME: folder };
  const { stdout, stderr } = spawnSync('bash', ['-c', script, process.execPath, LAUNCHER], { env });

  expect(`${stdout}${stderr}`).toBe('tokens\ncomplete -o default -F _questlog questlog\n');
});

test.each([['config'], ['config --check']])(
  '%s prints the settings or the invalid setting',
  async (words) => {
    const shown = JSON.parse(await runSuccessfully(words.split(' ')));
    const rejected = await run(words.split(' '), { env: { QUESTLOG_PORT: 'abc' } });

    expect(shown).toMatchObject({ adminToken: '***', token: '***', revision: 'A' });
    expect(rejected).toMatchObject({ code: 1, stderr: expect.stringContaining('QUESTLOG_PORT') });
  },
);

/**
 * Starts a server that accepts simulated games instead of the shared product. A flood would slow down the other tests of the
 * shared product. The server counts each idempotency key once.
 */
async function aStoreOfGames(): Promise<string> {
  const stored = new Map<string, number>();
  const reports = new Set<string>();
  return await aStranger(async (request, response) => {
    const body = await text(request);
    if (request.url === '/v1/ingest/events') {
      stored.set(`${request.headers['idempotency-key']}`, JSON.parse(body).length);
    }
    if (request.url === '/v1/ingest/reports') reports.add(JSON.parse(body).clientRequestId);
    if (request.method === 'GET') response.end('[]');
    else if (request.url === '/v1/ingest/uploads') {
      response.writeHead(501).end('{"code": "uploads_not_set_up", "detail": "no files here"}');
    } else if (request.url === '/admin/sql') {
      const sum = [...stored.values()].reduce((all, more) => all + more, reports.size);
      response.end(JSON.stringify([sum, reports.size]));
    } else response.end('{"id": "1", "token": "t"}');
  });
}

function dayFromToday(days: number): string {
  return new Date(Date.now() + days * 86_400_000).toISOString().slice(0, 10);
}
