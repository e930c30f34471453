/** Tests the counts of rejected requests and ignored fields in ClickHouse. The counts have samples, and contain no secrets. */
import { randomUUID } from 'node:crypto';
import { beforeAll, expect, test } from 'vitest';
import { aKey, anEvent, anUnknownId, aToken, events, eventually, type TestProject } from './builders.ts';
import { ownProduct } from './sharedProduct.ts';

const shared = ownProduct();
const NOBODY = '00000000-0000-0000-0000-000000000000';
const EVENTS = 'POST /v1/ingest/events';
let game: TestProject;

beforeAll(async () => {
  game = await shared.aProject({ revision: 'A' });
});

interface Row {
  readonly kind: string;
  readonly endpoint: string;
  readonly code: string;
  readonly field: string;
  readonly count: number;
  readonly requests: number;
  readonly eventType: string;
  readonly sample: string;
}

/** Waits until the project has `count` rows, and returns the rows. */
async function rowsOf(projectId: string, count: number): Promise<Row[]> {
  const query = `SELECT kind, endpoint, code, field, sum(rejects.count) AS count, sum(rejects.requests) AS requests,
      any(event_type) AS eventType, any(rejects.sample) AS sample
    FROM rejects WHERE project_id = '${projectId}' GROUP BY kind, endpoint, code, field ORDER BY kind, endpoint, code, field`;
  const answer = await eventually(
    () => shared.product.admin('POST', '/admin/sql', { query }),
    (found) => found.json().data.reduce((sum: number, row: Row) => sum + row.count, 0) >= count,
  );
  return answer.json().data;
}

function aRow(code: string, field: string, count: number, sample: unknown, of: Partial<Row> = {}): Row {
  const defaults = { kind: 'rejected', endpoint: EVENTS, requests: count, eventType: '' };
  return { ...defaults, code, field, count, sample: sample as string, ...of };
}

test.concurrent('counts typos by code and field with a sample', async () => {
  const { sessionId } = game;
  const typo = { sessionId, evenType: 'jump' };
  await game.post(typo);
  await game.post([anEvent({ sessionId }), typo, typo]);
  await game.post(anEvent({ sessionId: 'seven', payload: [1, { a: 1e21 }] }));
  const unknown = anUnknownId();
  await game.post(anEvent({ sessionId: unknown }));
  await game.request('POST', '/v1/ingest/reports', {
    body: { report: { title: 'Stuck' }, attachments: [0, 1].map(() => ({ uploadId: 'x' })) },
  });
  await game.request('POST', '/v1/ingest/uploads', { body: { attachmentType: 'photo' } });

  const reports = { endpoint: 'POST /v1/ingest/reports' };
  const uploads = { endpoint: 'POST /v1/ingest/uploads' };
  const file = '{"uploadId":"x"}';
  expect(await rowsOf(game.projectId, 15)).toEqual([
    aRow('field_required', '/eventType', 3, JSON.stringify(typo), { requests: 2 }),
    aRow('field_type', '/payload', 1, '[1,{"a":1e+21}]', { eventType: 'checkpoint' }),
    aRow('invalid_uuid', '/sessionId', 1, '"seven"', { eventType: 'checkpoint' }),
    aRow('unknown_session', '/sessionId', 1, `"${unknown}"`, { eventType: 'checkpoint' }),
    aRow('field_required', '/attachments/*/attachmentType', 2, file, { ...reports, requests: 1 }),
    aRow('field_required', '/attachments/*/fileName', 2, file, { ...reports, requests: 1 }),
    aRow('invalid_uuid', '/attachments/*/uploadId', 2, '"x"', { ...reports, requests: 1 }),
    aRow('field_invalid', '/attachmentType', 1, '"photo"', uploads),
    aRow('field_required', '/fileName', 1, '{"attachmentType":"photo"}', uploads),
    aRow('field_required', '/mimeType', 1, '{"attachmentType":"photo"}', uploads),
  ]);
});

test.concurrent('counts invalid requests by code', async () => {
  const own = await shared.aProject({ revision: 'B' });
  const read = await aToken(shared.product, own.projectId, { scopes: ['read'] });
  const key = { 'Idempotency-Key': aKey() };
  await own.post('[{"eventType":"x"} {}]');
  await own.post(events(201));
  await own.post(anEvent(), { 'Content-Type': 'text/plain' });
  await own.post(anEvent(), key);
  await own.post(anEvent({ payload: { n: 1 } }), key);
  await shared.product.request('POST', '/v1/ingest/events', {
    body: anEvent(),
    headers: { Authorization: `Bearer ${read.token}` },
  });
  await own.request('GET', `/v1/reports/${randomUUID()}`);

  expect(await rowsOf(own.projectId, 6)).toEqual([
    aRow('not_found', '', 1, '', { endpoint: 'GET /v1/reports/:id' }),
    aRow('batch_too_large', '', 1, JSON.stringify(events(201)).slice(0, 256)),
    aRow('forbidden', '', 1, ''),
    aRow('idempotency_key_reused', '', 1, ''),
    aRow('invalid_json', '', 1, '[{"eventType":"x"} {}]'),
    aRow('unsupported_media_type', '', 1, ''),
  ]);
});

test.concurrent('attributes a wrong path or method with a valid token to the project, with the request as sample', async () => {
  const own = await shared.aProject({ revision: 'B' });
  await own.request('POST', '/v1/events', { body: anEvent() });
  await own.request('POST', '/v1/sessions', { body: {} });
  await own.request('GET', `/v1/nowhere/${own.token}`);
  await own.request('GET', '/v1/ingest/events');

  expect(await rowsOf(own.projectId, 4)).toEqual([
    aRow('not_found', '', 2, expect.stringMatching(/^(POST \/v1\/sessions|GET \/v1\/nowhere\/\*+)$/), {
      endpoint: '',
    }),
    aRow('method_not_allowed', '', 1, 'GET /v1/ingest/events', { endpoint: 'GET /v1/ingest/events' }),
    aRow('method_not_allowed', '', 1, 'POST /v1/events', { endpoint: 'POST /v1/events' }),
  ]);
  const all = await shared.product.admin('POST', '/admin/sql', { query: 'SELECT sample FROM reject_counts' });
  expect(all.text()).not.toContain(own.token);
});

test.concurrent('counts excluded elements of a lenient batch, and ignored fields of stored events', async () => {
  const own = await shared.aProject({ revision: 'B' });
  const batch = [anEvent({ userId: 7 }), { evenType: 'a' }, 'event', anEvent({ userId: 8 })];
  expect((await own.post(batch, { Prefer: 'handling=lenient' })).status).toBe(207);
  await own.request('POST', '/v1/ingest/sessions', {
    body: { build: { version: '1', platform: 'Web', commit: 'c' } },
  });
  await own.request('POST', '/v1/ingest/reports', {
    body: { report: { title: 'Stuck' }, events: [anEvent(), anEvent({ eventType: 'fall', sesion: 'y' })] },
  });
  await own.request('POST', '/v1/ingest/uploads', {
    body: { attachmentType: 'log_bundle', fileName: 'game.log', mimeType: 'text/plain', sizebytes: 3 },
  });
  await own.post(anEvent({ userId: 9 }), { Prefer: 'handling=strict' });

  const ignored = (endpoint: string) => ({ kind: 'ignored', endpoint });
  const rejected = [
    aRow('field_required', '/eventType', 1, '{"evenType":"a"}'),
    aRow('field_type', '', 1, '"event"'),
    aRow('field_unknown', '/userId', 1, '9', { eventType: 'checkpoint' }),
  ];
  expect(await rowsOf(own.projectId, 8)).toEqual([
    ...rejected,
    aRow('field_unknown', '/evenType', 1, '"a"', ignored(EVENTS)),
    aRow('field_unknown', '/userId', 1, '7', { ...ignored(EVENTS), eventType: 'checkpoint' }),
    aRow('field_unknown', '/events/*/sesion', 1, '"y"', {
      ...ignored('POST /v1/ingest/reports'),
      eventType: 'fall',
    }),
    aRow('field_unknown', '/build/commit', 1, '"c"', ignored('POST /v1/ingest/sessions')),
    aRow('field_unknown', '/sizebytes', 1, '3', ignored('POST /v1/ingest/uploads')),
  ]);
});

test.concurrent('stores times of a wrong clock, reports them in one header, and counts them, on every path', async () => {
  const own = await shared.aProject({ revision: 'B' });
  const ahead = new Date(Date.now() + 86_400_000).toISOString();
  const sent: readonly (readonly [string, unknown, Record<string, string>])[] = [
    ['events', [anEvent({ occurredAt: ahead }), anEvent({ occurredAt: '2062-01-01T00:00:00Z' })], {}],
    ['events', anEvent({ occurredAt: '1970-01-01T00:00:00.000Z' }), { 'Idempotency-Key': aKey() }],
    ['events', [anEvent({ occurredAt: '2026-11-21T12:00:00' }), {}], { Prefer: 'handling=lenient' }],
    ['sessions', { startedAt: '2012-01-01T00:00:00Z' }, {}],
    [
      'reports',
      {
        occurredAt: ahead,
        report: { title: 'Stuck' },
        events: [anEvent(), anEvent({ occurredAt: '2001-01-01' })],
      },
      {},
    ],
    ['events', anEvent({ occurredAt: new Date().toISOString() }), {}],
  ];
  const told = [];
  for (const [kind, body, headers] of sent) {
    const answer = await own.request('POST', `/v1/ingest/${kind}`, { body, headers });
    expect(answer.status, answer.text()).toBeLessThan(300);
    expect(answer.headers.get('access-control-expose-headers')).toContain('Questlog-Clock-Skew');
    told.push(answer.headers.get('questlog-clock-skew'));
  }

  expect(told).toEqual([
    expect.stringMatching(/^\d{10};code=time_ahead;times=2$/),
    expect.stringMatching(/^-\d{10};code=time_before_2015;times=1$/),
    expect.stringMatching(/^-?\d+;code=time_without_zone;times=1$/),
    expect.stringMatching(/^-\d{9};code=time_before_2015;times=1$/),
    expect.stringMatching(/^-\d{9};code=time_before_2015;times=2$/),
    null,
  ]);
  const checkpoint = { kind: 'warned', eventType: 'checkpoint' };
  const reports = { endpoint: 'POST /v1/ingest/reports' };
  const rows = await rowsOf(own.projectId, 8);
  expect(rows.filter(({ kind }) => kind === 'warned')).toEqual([
    aRow('time_ahead', '/occurredAt', 2, expect.stringMatching(/^"20\d\d-/), { ...checkpoint, requests: 1 }),
    aRow('time_before_2015', '/occurredAt', 1, '"1970-01-01T00:00:00.000Z"', checkpoint),
    aRow('time_without_zone', '/occurredAt', 1, '"2026-11-21T12:00:00"', checkpoint),
    aRow('time_ahead', '/occurredAt', 1, `"${ahead}"`, { kind: 'warned', ...reports }),
    aRow('time_before_2015', '/events/*/occurredAt', 1, '"2001-01-01"', { ...checkpoint, ...reports }),
    aRow('time_before_2015', '/startedAt', 1, '"2012-01-01T00:00:00Z"', {
      kind: 'warned',
      endpoint: 'POST /v1/ingest/sessions',
    }),
  ]);
});

test.concurrent('counts fields above a project’s limit as other', async () => {
  const own = await shared.aProject({ revision: 'B' });
  for (let n = 0; n < 30; n++) {
    const names = Array.from({ length: 10 }, (_, m) => [`name${n}x${m}`, m]);
    await own.post(anEvent(Object.fromEntries(names)));
  }

  const rows = await rowsOf(own.projectId, 300);
  expect(rows.reduce((sum, { count }) => sum + count, 0)).toBe(300);
  // Allows the rows of two minutes, because the requests can cross the start of a minute.
  expect(rows.length).toBeLessThanOrEqual(202);
  expect(rows.find(({ field }) => field === 'other')?.count).toBeGreaterThanOrEqual(100);
});

test.concurrent('counts requests without a valid token without a project and without the token', async () => {
  const unknown = 'qlt_an-unknown-token-of-no-client';
  for (const Authorization of [`Bearer ${unknown}`, unknown]) {
    await shared.product.request('POST', '/v1/ingest/events', {
      body: anEvent(),
      headers: { Authorization },
    });
  }
  await shared.product.request('GET', `/v1/nowhere/${unknown}?token=${unknown}`, {
    headers: { Authorization: `Bearer ${unknown}` },
  });
  // Requests of a browser for pages without a token are not counted.
  for (const path of ['/', '/favicon.ico']) await fetch(shared.product.credentials.baseUrl + path);
  const own = await shared.aProject({ revision: 'B' });
  const { token, projectId } = own;
  await own.post(
    anEvent({ accessToken: token, note: `it is ${token}`, [token]: 1, eventType: `${token} 2` }),
  );
  await own.post(`{"eventType":"x","a":"${token}`);

  expect(await rowsOf(NOBODY, 3)).toEqual([
    aRow('not_found', '', 1, '', { endpoint: '' }),
    aRow('unauthorized', '', 2, ''),
  ]);
  const masked = '*'.repeat(token.length);
  const ignored = { kind: 'ignored', eventType: `${masked} 2` };
  expect(await rowsOf(projectId, 4)).toEqual([
    aRow('invalid_json', '', 1, `{"eventType":"x","a":"${masked}`),
    aRow('field_unknown', `/${masked}`, 1, '1', ignored),
    aRow('field_unknown', '/accessToken', 1, '***', ignored),
    aRow('field_unknown', '/note', 1, `"it is ${masked}"`, ignored),
  ]);
  const query = 'SELECT * FROM reject_counts';
  const all = (await shared.product.admin('POST', '/admin/sql', { query })).text();
  expect(all).toContain('unauthorized');
  for (const secret of [token, unknown]) {
    expect(all).not.toContain(secret.slice(0, 12));
    expect(all).not.toContain(secret.slice(-12));
  }
});
