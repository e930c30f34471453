/** Tests switches. One command stops a build that floods, a sample keeps whole sessions, and the ledger balances. */
import { tmpdir } from 'node:os';
import { describe, expect, test } from 'vitest';
import {
  aKey,
  anEvent,
  anUnknownId,
  events,
  eventually,
  RECOUNT_WITHIN_MS,
  type TestProject,
} from './builders.ts';
import { questlogCommand, reaching } from './questlogCommand.ts';
import { sharedProduct } from './sharedProduct.ts';

const shared = sharedProduct();
const LENIENT = { Prefer: 'handling=lenient' };

async function questlog(game: TestProject, ...args: string[]) {
  const env = reaching(shared.product, game, tmpdir());
  const { code, stdout, stderr } = await questlogCommand(args, { env });
  expect({ code, stderr }).toEqual({ code: 0, stderr: expect.any(String) });
  return { stdout, stderr };
}

async function put(game: TestProject, switches: unknown) {
  return await shared.product.admin('PUT', `/admin/projects/${game.projectId}/switches`, switches);
}

async function switchesOf(game: TestProject) {
  return (await shared.product.admin('GET', `/admin/projects/${game.projectId}/switches`)).json();
}

interface Books {
  readonly acceptedEvents: number;
  readonly sampledEvents: number;
  readonly loggedEvents: number;
  readonly projectedEvents: number;
  readonly unloggedEvents: number;
  readonly outcomes: Readonly<Record<string, number>>;
}

/** Waits until the ledger of the tenant balances, and returns the ledger. */
async function evenBooks(game: TestProject, loggedEvents: number): Promise<Books> {
  return await eventually(
    async () => {
      const { minutes } = (await shared.product.admin('GET', `/admin/ledger?tenant=${game.tenantId}`)).json();
      const none = { acceptedEvents: 0, sampledEvents: 0, loggedEvents: 0, projectedEvents: 0 };
      // Adds up all minutes of the ledger, because the test can cross the start of a minute.
      return minutes.reduce(sumOf, { ...none, unloggedEvents: 0, outcomes: {} });
    },
    (books: Books) => books.projectedEvents === loggedEvents && books.loggedEvents === loggedEvents,
  );
}

function sumOf(a: Books, b: Books): Books {
  const outcomes = { ...a.outcomes };
  for (const [name, n] of Object.entries(b.outcomes)) outcomes[name] = (outcomes[name] ?? 0) + n;
  return {
    acceptedEvents: a.acceptedEvents + b.acceptedEvents,
    sampledEvents: a.sampledEvents + b.sampledEvents,
    loggedEvents: a.loggedEvents + b.loggedEvents,
    projectedEvents: a.projectedEvents + b.projectedEvents,
    unloggedEvents: a.unloggedEvents + b.unloggedEvents,
    outcomes,
  };
}

describe.concurrent('a build that floods', () => {
  test('is stopped by one command with its reason until the switch is removed, while others continue', async () => {
    const game = await shared.aProject({ revision: 'A', monthlySoftQuota: 100 });
    const buildId = anUnknownId();
    const bad = await game.session({ buildId });
    const before = await game.post(events(3, { sessionId: bad }), { 'Idempotency-Key': aKey() });
    const key = { 'Idempotency-Key': aKey() };
    const first = await game.post(events(2, { sessionId: bad }), key);
    const added = await questlog(
      game,
      ...['switches', 'add', game.projectId, '--reject', '--build', buildId, '--reason', '1.4.2 floods'],
    );
    expect(added.stdout).toContain(`1       reject  -           -          ${buildId}`);
    const refused = await game.post(events(2, { sessionId: bad }));
    const mixed = await game.post([anEvent({ sessionId: bad }), anEvent({ sessionId: game.sessionId })]);
    const lenient = await game.post(
      [anEvent({ sessionId: bad }), anEvent({ sessionId: game.sessionId })],
      LENIENT,
    );

    expect([before.status, refused.status, mixed.status]).toEqual([201, 403, 403]);
    expect(refused.json()).toMatchObject({
      code: 'switched_off',
      detail: expect.stringContaining('1.4.2 floods'),
      errors: [{ index: 0 }, { index: 1 }],
    });
    expect(mixed.json().errors).toHaveLength(1);
    expect([lenient.status, lenient.json()]).toEqual([
      207,
      [
        expect.objectContaining({ status: 403, code: 'switched_off' }),
        expect.objectContaining({ eventType: 'checkpoint' }),
      ],
    ]);
    // A replay gets the original answer despite the switch.
    const again = await game.post(events(2, { sessionId: bad }), key);
    expect([again.status, again.json()]).toEqual([200, first.json()]);
    expect((await game.get('/v1/quota')).json().used).toBe(6);
    const { outcomes, ...books } = await evenBooks(game, 6);
    expect(books).toMatchObject({ acceptedEvents: 6, sampledEvents: 0, unloggedEvents: 0 });
    await eventually(
      () =>
        shared.product.sql<{ n: number }>(
          `SELECT toUInt32(sum(count)) AS n FROM rejects WHERE project_id = '${game.projectId}' AND code = 'switched_off'`,
        ),
      ([row]) => row?.n === 4,
    );

    await questlog(game, 'switches', 'clear', game.projectId, '1');
    expect((await game.post(events(1, { sessionId: bad }))).status).toBe(201);
    const metrics = await fetch(`${shared.product.credentials.adminUrl}/metrics`);
    expect(await metrics.text()).toMatch(/questlog_events_switched_total\{action="reject"\} [1-9]/);
  });

  test('is accepted again after the end of its switch', async () => {
    const game = await shared.aProject({ revision: 'B' });
    const until = new Date(Date.now() + 3_000).toISOString();
    const set = await put(game, [{ eventType: 'frame', action: 'reject', until, reason: 'a flood' }]);
    expect(set.status).toBe(200);
    await eventually(
      () => game.post(anEvent({ eventType: 'frame' })),
      ({ status }) => status === 201,
    );
    expect(Date.now()).toBeGreaterThanOrEqual(Date.parse(until));
    expect(await switchesOf(game)).toEqual([]);
  });

  test('is stopped for a share of the players, in all of their sessions', async () => {
    const game = await shared.aProject({ revision: 'B' });
    const players = Array.from({ length: 12 }, (_, i) => `player ${i}`);
    const sessions: string[] = [];
    for (const externalId of [...players, ...players]) {
      sessions.push(await game.session({ player: { externalId } }));
    }
    await put(game, [{ playerShare: 0.5, action: 'reject', reason: 'half of them first' }]);
    const answer = await game.post(
      sessions.map((sessionId) => anEvent({ sessionId })),
      LENIENT,
    );
    const isOff = answer.json().map(({ code }: { code?: string }) => code === 'switched_off');

    expect(isOff.slice(12)).toEqual(isOff.slice(0, 12));
    expect(new Set(isOff)).toEqual(new Set([true, false]));
  });
});

describe.concurrent('a sample', () => {
  test('acknowledges every event, stores whole sessions with the rate, and reports the sampled-out events', {
    timeout: RECOUNT_WITHIN_MS,
  }, async () => {
    const game = await shared.aProject({ revision: 'A' });
    const sessions: string[] = [];
    for (let i = 0; i < 30; i++) sessions.push(await game.session());
    await put(game, [{ eventType: 'frame', action: 'sample', sampleRate: 0.5, reason: 'too many' }]);
    const batch = sessions.flatMap((sessionId) => events(2, { sessionId, eventType: 'frame' }));
    const key = { 'Idempotency-Key': aKey() };
    const answer = await game.post(batch, key);
    const again = await game.post(batch, key);
    const others = await game.post(events(5, { sessionId: game.sessionId }));
    const unkeyed = await game.post(batch);

    const told = answer.headers.get('questlog-sampled') ?? '';
    const out = Number(/^(\d+) of 60$/.exec(told)?.[1]);
    expect(out % 2).toBe(0);
    expect([answer.status, others.status, others.headers.get('questlog-sampled')]).toEqual([201, 201, null]);
    expect(answer.json()).toEqual(
      batch.map((sent) =>
        expect.objectContaining({ ...sent, id: expect.any(String), reportIds: [], overQuota: false }),
      ),
    );
    expect([again.status, again.json(), again.headers.get('questlog-sampled')]).toEqual([
      200,
      answer.json(),
      told,
    ]);
    // The sample must select the same sessions in every request.
    expect(unkeyed.headers.get('questlog-sampled')).toBe(told);

    const stored = 2 * (60 - out);
    const { outcomes, ...books } = await evenBooks(game, stored + 5);
    expect(books).toMatchObject({ acceptedEvents: 125, sampledEvents: 2 * out, unloggedEvents: 0 });
    expect(outcomes).toEqual({ accepted: 34, replayed: 1 });
    expect((await game.get('/v1/quota')).json().used).toBe(stored + 5);
    const rows = await shared.product.sql(
      `SELECT event_type, sample_rate, toUInt32(count()) AS n, sum(1 / sample_rate) AS stands_for,
         toUInt32(uniqExact(session_id)) AS sessions
       FROM game_events WHERE project_id = '${game.projectId}' GROUP BY ALL ORDER BY event_type`,
    );
    expect(rows).toEqual([
      { event_type: 'checkpoint', sample_rate: 1, n: 5, stands_for: 5, sessions: 1 },
      { event_type: 'frame', sample_rate: 0.5, n: stored, stands_for: 2 * stored, sessions: stored / 4 },
    ]);
    const counted = await shared.product.sql(
      `SELECT event_type, toUInt32(sum(count)) AS n, sum(weighted_count) AS stands_for FROM event_counts_by_minute
       WHERE project_id = '${game.projectId}' GROUP BY event_type ORDER BY event_type`,
    );
    expect(counted).toEqual([
      { event_type: 'checkpoint', n: 5, stands_for: 5 },
      { event_type: 'frame', n: stored, stands_for: 2 * stored },
    ]);
    const { stderr } = await questlog(game, 'verify', '--from', '10m', '--tenant', game.tenantId);
    expect(stderr).toContain(`${stored + 5} events in the log, ${stored + 5} of them in ClickHouse`);
    expect(stderr).toContain('nothing differs');
  });

  test('that keeps almost no event acknowledges every event', async () => {
    const game = await shared.aProject({ revision: 'B' });
    await questlog(game, 'switches', 'add', game.projectId, '--sample', '0.000001', '--reason', 'a flood');
    const alone = await game.post(anEvent({ sessionId: game.sessionId }));
    const lenient = await game.post([anEvent(), { eventType: 7 }], LENIENT);

    expect([alone.status, alone.headers.get('questlog-sampled')]).toEqual([201, '1 of 1']);
    expect([lenient.status, lenient.headers.get('questlog-sampled')]).toEqual([207, '1 of 1']);
    expect(lenient.json()).toMatchObject([{ eventType: 'checkpoint' }, { code: 'field_type' }]);
    const { acceptedEvents, sampledEvents } = await eventually(
      () => evenBooks(game, 0),
      (books) => books.acceptedEvents === 2,
    );
    expect([acceptedEvents, sampledEvents]).toEqual([2, 2]);
  });
});

test('the command line lists the switches, adds one at the front, and removes all', async () => {
  const game = await shared.aProject({ revision: 'B' });
  const add = ['switches', 'add', game.projectId];
  await questlog(game, ...add, '--sample', '0.5', '--type', 'frame', '--reason', 'one');
  await questlog(game, ...add, '--reject', '--players', '0.1', '--until', '2h', '--reason', 'two');
  const { stdout } = await questlog(game, 'switches', 'list', game.projectId, '--json');
  const none = { eventType: null, buildId: null, playerShare: null, sampleRate: null };

  expect(JSON.parse(stdout)).toEqual([
    { ...none, action: 'reject', playerShare: 0.1, until: expect.any(String), reason: 'two' },
    { ...none, action: 'sample', sampleRate: 0.5, eventType: 'frame', until: null, reason: 'one' },
  ]);
  const [project] = (await shared.product.admin('GET', '/admin/projects'))
    .json()
    .filter(({ id }: { id: string }) => id === game.projectId);
  expect(project.switches).toBe(2);
  await questlog(game, 'switches', 'clear', game.projectId);
  expect(await switchesOf(game)).toEqual([]);
});

test('rejects the replacement of a changed list with a 412', async () => {
  const game = await shared.aProject();
  const { adminUrl, adminToken } = shared.product.credentials;
  const url = `${adminUrl}/admin/projects/${game.projectId}/switches`;
  const ask = async (ifMatch: string, reason: string) => {
    const headers = { Authorization: `Bearer ${adminToken}`, 'Content-Type': 'application/json' };
    const body = JSON.stringify([{ action: 'reject', eventType: 'frame', reason }]);
    return await fetch(url, { method: 'PUT', headers: { ...headers, 'If-Match': ifMatch }, body });
  };
  const read = await shared.product.admin('GET', `/admin/projects/${game.projectId}/switches`);
  const empty = read.headers.get('etag') ?? '';
  const first = await ask(`W/"x", ${empty}`, 'first');
  const second = await ask(empty, 'second');

  expect([first.status, second.status, Object(await second.json()).code]).toEqual([
    ...[200, 412, 'precondition_failed'],
  ]);
  const now = await shared.product.admin('GET', `/admin/projects/${game.projectId}/switches`);
  expect(now.headers.get('etag')).toBe(first.headers.get('etag'));
  expect(now.json()).toMatchObject([{ reason: 'first' }]);
  for (const none of ['"x",', 'x']) expect((await ask(none, 'not of this list')).status).toBe(412);
  // A compressing proxy adds the prefix `W/`.
  expect((await ask(`W/${first.headers.get('etag')}`, 'through a proxy')).status).toBe(200);
  expect((await ask('*', 'whatever is there')).status).toBe(200);
});

test('rejects an ambiguous switch, and keeps the earlier switches', async () => {
  const game = await shared.aProject({ revision: 'B' });
  const good = { action: 'reject', eventType: 'x', reason: 'R' };
  await put(game, [good]);
  const cases: [unknown, string | undefined][] = [
    [{ ...good }, undefined],
    [[{ action: 'reject' }], '/0/reason'],
    [[{ ...good, reason: '' }], '/0/reason'],
    [[{ ...good, reason: 'x'.repeat(501) }], '/0/reason'],
    [[good, { ...good, action: 'drop' }], '/1/action'],
    [[{ ...good, action: 'sample' }], '/0/sampleRate'],
    [[{ ...good, sampleRate: 0.5 }], '/0/sampleRate'],
    [[{ ...good, action: 'sample', sampleRate: 0 }], '/0/sampleRate'],
    [[{ ...good, playerShare: 1.5 }], '/0/playerShare'],
    [[{ ...good, until: '2020-01-01T00:00:00Z' }], '/0/until'],
    [[{ ...good, until: 'soon' }], '/0/until'],
    [[{ ...good, evenType: 'y' }], '/0/evenType'],
    [[{ ...good, buildId: 'abc' }], '/0/buildId'],
    [Array.from({ length: 33 }, () => good), ''],
  ];
  for (const [body, pointer] of cases) {
    const answer = await put(game, body);
    expect([answer.status, answer.json().errors?.[0]?.pointer]).toEqual([400, pointer]);
  }
  expect(await switchesOf(game)).toMatchObject([good]);
  const path = `/admin/projects/${anUnknownId()}/switches`;
  const nobodys = await Promise.all([
    shared.product.admin('GET', path),
    shared.product.admin('PUT', path, [good]),
  ]);
  expect(nobodys.map(({ status }) => status)).toEqual([404, 404]);
});
