/** Tests the rate limits of projects and tenants, and suspensions. Checks the responses, the stored events, and the ledger. */
import { describe, expect, test } from 'vitest';
import { aKey, anEvent, events, eventually, type TestProject } from './builders.ts';
import { sharedProduct } from './sharedProduct.ts';
import { openWire, type WireAnswer, type WireRequest } from './wire.ts';

const shared = sharedProduct();
const LENIENT = { Prefer: 'handling=lenient' };
/** Limits with a burst of one second. A large request is accepted, and later requests must wait for the time that it used. */
const TIGHT = { burstSeconds: 1 };

async function limit(game: TestProject, change: object, path = `/admin/projects/${game.projectId}`) {
  const answer = await shared.product.admin('PATCH', path, change);
  expect(answer.status).toBe(200);
  return answer.json();
}

describe.concurrent('events above the limit', () => {
  test('get a 429 with Retry-After; no event is stored, and the ledger counts the rejection', async () => {
    const game = await shared.aProject({ revision: 'B' });
    const { limits } = await limit(game, { limits: { eventsPerSecond: 1, ...TIGHT } });
    expect(limits).toEqual({
      eventsPerSecond: 1,
      requestsPerSecond: null,
      bytesPerSecond: null,
      burstSeconds: 1,
    });
    expect((await game.post(events(200))).status).toBe(201);
    const refused = await game.post(events(3));

    expect([refused.status, refused.json()]).toEqual([
      429,
      expect.objectContaining({ code: 'rate_limited', detail: expect.stringContaining('1 events a second') }),
    ]);
    expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(100);
    expect(refused.headers.get('ratelimit-policy')).toBe('"project-events";q=1;w=1;qu="events"');
    expect(refused.headers.get('ratelimit')).toMatch(/^"project-events";r=0;t=\d{3}$/);
    expect((await game.get('/v1/quota')).json().used).toBe(200);
    const outcomes = () =>
      shared.product.sql(
        `SELECT what, toUInt32(sum(count)) AS n FROM (SELECT * FROM received_by_process FINAL)
         WHERE tenant_id = '${game.tenantId}' AND what != 'logged' GROUP BY what ORDER BY what`,
      );
    const all = [
      { what: 'accepted', n: 2 },
      { what: 'rate_limited', n: 1 },
    ];
    expect(await eventually(outcomes, (rows) => rows.length === 2)).toEqual(all);
  });

  test('are excluded from a lenient batch from the first one above the limit, and stored by a retry', async () => {
    const game = await shared.aProject({ revision: 'B' });
    await limit(game, { limits: { eventsPerSecond: 1, burstSeconds: 60 } });
    await game.post(events(58));
    const keyed = { ...LENIENT, 'Idempotency-Key': aKey() };
    const answer = await game.post(events(50), keyed);
    const codes = answer.json().map(({ code }: { code?: string }) => code ?? 'stored');
    const stored = codes.indexOf('rate_limited');

    expect(answer.status).toBe(207);
    expect(stored).toBeGreaterThanOrEqual(2);
    expect(codes).toEqual(codes.map((_: string, n: number) => (n < stored ? 'stored' : 'rate_limited')));
    expect(answer.json()[stored]).toMatchObject({ status: 429, errors: [{ index: stored, pointer: '' }] });
    expect(Number(answer.headers.get('retry-after'))).toBeGreaterThan(20);
    expect(answer.headers.get('ratelimit')).toMatch(/^"project-events";r=\d+;t=\d+$/);
    await limit(game, { limits: null });
    const again = await game.post(events(50), keyed);
    expect(again.json().slice(0, stored)).toEqual(answer.json().slice(0, stored));
    expect(again.json().filter((one: object) => 'code' in one)).toEqual([]);
    expect((await game.get('/v1/quota')).json().used).toBe(108);
  });

  test('a lenient batch without capacity stores nothing, and a retry stores all events', async () => {
    const game = await shared.aProject({ revision: 'B' });
    await limit(game, { limits: { eventsPerSecond: 1, ...TIGHT } });
    await game.post(events(200));
    const keyed = { ...LENIENT, 'Idempotency-Key': aKey() };
    const refused = await game.post(events(2), keyed);
    await limit(game, { limits: null });
    const again = await game.post(events(2), keyed);

    expect(refused.json().map(({ code }: { code?: string }) => code)).toEqual([
      'rate_limited',
      'rate_limited',
    ]);
    expect(again.json()).toEqual([0, 1].map((n) => expect.objectContaining({ payload: { n } })));
    expect((await game.get('/v1/quota')).json().used).toBe(202);
  });

  test('answers a replay without capacity', async () => {
    const game = await shared.aProject({ revision: 'B' });
    await limit(game, { limits: { eventsPerSecond: 1, ...TIGHT } });
    const key = { 'Idempotency-Key': aKey() };
    const first = await game.post(events(200), key);
    const again = await game.post(events(200), key);

    expect([again.status, again.json()]).toEqual([200, first.json()]);
  });

  test('reject their report, and a retry files it', async () => {
    const game = await shared.aProject({ revision: 'B' });
    await limit(game, { limits: { eventsPerSecond: 1, ...TIGHT } });
    await game.post(events(200));
    const report = { clientRequestId: aKey(), events: events(2) };

    expect([
      (await game.report(report)).status,
      (await game.report({ report: { title: 'x' } })).status,
    ]).toEqual([429, 201]);
    await limit(game, { limits: null });
    expect((await game.report(report)).status).toBe(201);
  });
});

describe.concurrent('requests and bytes above the limit', () => {
  test('are rejected before the body arrives if its length is announced, otherwise before parsing', async () => {
    const game = await shared.aProject({ revision: 'B' });
    await limit(game, { limits: { bytesPerSecond: 1, ...TIGHT } });
    expect((await game.post(events(10))).status).toBe(201);
    const held = { body: JSON.stringify(anEvent()), sending: 'held back' } as const;
    const heldBack = await asked(game, held);

    expect([heldBack.status, heldBack.headers.get('ratelimit-policy')]).toEqual([
      429,
      '"project-bytes";q=1;w=1;qu="content-bytes"',
    ]);
    const unannounced = await shared.aProject({ revision: 'B' });
    await limit(unannounced, { limits: { bytesPerSecond: 1, burstSeconds: 3_600 } });
    const statuses = [];
    for (const sent of ['x'.repeat(3_000), 'x'.repeat(900)]) {
      statuses.push((await asked(unannounced, { body: sent, sending: 'chunked' })).status);
    }
    expect(statuses).toEqual([400, 429]);
  });

  test('a tenant’s limit covers all of its projects, and null removes it within 2 s', async () => {
    const game = await shared.aProject({ revision: 'B' });
    const other = await shared.aProject({ revision: 'B', tenantId: game.tenantId });
    const stranger = await shared.aProject({ revision: 'B' });
    const tenant = `/admin/tenants/${game.tenantId}`;
    await limit(game, { limits: { bytesPerSecond: 1, ...TIGHT } }, tenant);
    await game.post(events(10));

    expect([(await other.post(anEvent())).status, (await stranger.post(anEvent())).status]).toEqual([
      429, 201,
    ]);
    expect((await limit(game, { limits: null }, tenant)).limits).toBe(null);
    await eventually(
      () => other.post(anEvent()),
      ({ status }) => status === 201,
      2_000,
    );
  });

  test('reads are not limited', async () => {
    const game = await shared.aProject({ revision: 'B' });
    await limit(game, { limits: { requestsPerSecond: 1, bytesPerSecond: 1, ...TIGHT } });
    const reads = await Promise.all(Array.from({ length: 5 }, () => game.get('/v1/quota')));

    expect(reads.map(({ status }) => status)).toEqual([200, 200, 200, 200, 200]);
  });
});

async function asked(game: TestProject, sent: Pick<WireRequest, 'body' | 'sending'>): Promise<WireAnswer> {
  const wire = await openWire(shared.product.credentials.baseUrl);
  const headers = { Authorization: `Bearer ${game.token}`, 'Content-Type': 'application/json' };
  const answer = await wire.ask({ path: '/v1/ingest/events', headers, ...sent });
  wire.close();
  return answer;
}

describe.concurrent('a suspended', () => {
  test.each(['project', 'tenant'] as const)('%s cannot write, and its data stays readable', async (kind) => {
    const game = await shared.aProject({ revision: 'B' });
    const [{ id }] = (await game.post(anEvent())).json();
    const { id: report } = (await game.report({ report: { title: 'x' } })).json();
    const path = kind === 'project' ? `/admin/projects/${game.projectId}` : `/admin/tenants/${game.tenantId}`;
    expect((await limit(game, { suspended: true }, path)).suspended).toBe(true);
    const post = (to: string) => game.request('POST', `/v1/ingest/${to}`, { body: {} });
    const writes = await Promise.all([
      ...['events', 'sessions', 'reports', 'uploads'].map(post),
      game.request('DELETE', `/v1/reports/${report}`),
    ]);

    for (const write of writes) {
      expect([write.status, write.json()]).toEqual([
        403,
        expect.objectContaining({
          code: 'suspended',
          detail: expect.stringContaining(`the ${kind} is suspended`),
        }),
      ]);
    }
    expect((await game.get(`/v1/events/${id}`)).status).toBe(200);
    expect(await shared.product.sql(`SELECT id FROM events WHERE id = '${id}'`)).toEqual([{ id }]);
    await limit(game, { suspended: false }, path);
    expect((await game.post(anEvent())).status).toBe(201);
  });
});

test('rejects unknown and invalid limits', async () => {
  const game = await shared.aProject();
  const path = `/admin/projects/${game.projectId}`;
  const patches = [
    { eventsPerSecnd: 1 },
    { eventsPerSecond: 0 },
    { burstSeconds: 0 },
    { bytesPerSecond: '9' },
    5,
  ];
  const answers = await Promise.all(patches.map((limits) => shared.product.admin('PATCH', path, { limits })));

  expect(answers.map(({ status }) => status)).toEqual([400, 400, 400, 400, 400]);
});
