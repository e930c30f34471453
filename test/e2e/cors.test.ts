/**
 * Tests pages of other origins. Every path answers a preflight, and every answer has a header that lets the page read the
 * answer.
 */
import { beforeAll, describe, expect, test } from 'vitest';
import { anEvent, anUnknownId, type TestProject } from './builders.ts';
import { sharedProduct } from './sharedProduct.ts';
import { openWire } from './wire.ts';

const shared = sharedProduct();
let game: TestProject;

beforeAll(async () => {
  game = await shared.aProject({ revision: 'A' });
});

describe('a preflight', () => {
  test('has the same answer on every path, without authentication', async () => {
    const { paths }: { paths: Record<string, Record<string, unknown>> } = (
      await game.get('/openapi.json')
    ).json();
    const all = [
      ...Object.keys(paths).map((path) => path.replace('{id}', anUnknownId())),
      '/v1/nothing',
      '/',
    ];
    const used = Object.values(paths).flatMap((operations) => Object.keys(operations));
    const distinct = new Set<string>();
    for (const path of all) {
      const answer = await preflight(path, { 'Access-Control-Request-Method': 'POST' });
      const listed = (answer.headers.get('access-control-allow-methods') ?? '').split(', ');

      expect([path, answer.status, answer.headers.get('access-control-allow-origin')]).toEqual([
        path,
        204,
        '*',
      ]);
      expect(listed).toEqual(expect.arrayContaining(used.map((method) => method.toUpperCase())));
      distinct.add(JSON.stringify(corsHeaders(answer.headers)));
    }
    expect(all.length).toBeGreaterThan(10);
    expect([...distinct]).toHaveLength(1);
  });

  test('allows each header that a client sends by name', async () => {
    const { headers } = await preflight('/v1/ingest/events', { 'Access-Control-Request-Method': 'POST' });

    expect((headers.get('access-control-allow-headers') ?? '').split(', ')).toEqual(
      expect.arrayContaining([
        'authorization',
        'content-type',
        'content-encoding',
        'idempotency-key',
        'prefer',
        'traceparent',
      ]),
    );
    expect(Number(headers.get('access-control-max-age'))).toBeGreaterThanOrEqual(600);
  });

  test('is any OPTIONS request to an existing path, and a 404 for any other path', async () => {
    expect((await preflight('/v1/ingest/events', {})).status).toBe(204);
    expect((await preflight('/v1/nothing', {})).status).toBe(404);
  });
});

describe('a page may read', () => {
  const withToken = (): Record<string, string> => ({ Authorization: `Bearer ${game.token}` });

  test('every answer: successes, problems, and HEAD', async () => {
    const large = anEvent({ sessionId: game.sessionId, payload: { x: 'x'.repeat(8 * 1024 * 1024) } });
    const answers = [
      [201, await game.post(anEvent({ sessionId: game.sessionId }))],
      [400, await game.post('{')],
      [401, await game.post('x', { Authorization: 'Bearer nobody' })],
      [404, await game.get('/v1/nothing')],
      [404, await game.get(`/v1/sessions/${anUnknownId()}`)],
      [405, await game.request('PUT', '/v1/quota')],
      [413, await game.post(large)],
      [415, await game.post('x', { 'Content-Type': 'text/plain' })],
      [200, await game.request('HEAD', '/v1/quota')],
      [200, await game.get('/health')],
    ] as const;

    expect(answers.map(([, { status }]) => status)).toEqual(answers.map(([status]) => status));
    for (const [status, { headers }] of answers)
      expect([status, ...readable(headers)]).toEqual([status, '*', true]);
  });

  test('the answer to an invalid HTTP request', async () => {
    const wire = await openWire(shared.product.credentials.baseUrl);
    const answer = await wire.ask({ method: 'GET', path: '/health', headers: { 'not a name': 'x' } });

    expect([answer.status, answer.headers.get('access-control-allow-origin')]).toEqual([400, '*']);
  });

  test('a stream of linked events, and the rejection of too many streams', async () => {
    const stop = new AbortController();
    const open = (): Promise<Response> =>
      fetch(`${shared.product.credentials.baseUrl}/v1/linked-events?from=end`, {
        headers: withToken(),
        signal: stop.signal,
      });
    const answers: Response[] = [];
    while (answers.at(-1)?.status !== 503 && answers.length < 20) answers.push(await open());
    stop.abort();

    expect([answers[0]?.status, answers.at(-1)?.status]).toEqual([200, 503]);
    for (const { headers } of answers) expect(readable(headers)).toEqual(['*', true]);
  });
});

test('the operators’ listener sends no CORS headers', async () => {
  const { adminUrl, adminToken } = shared.product.credentials;
  const headers = {
    Origin: 'https://game.example',
    'Access-Control-Request-Method': 'GET',
    Authorization: `Bearer ${adminToken}`,
  };
  for (const [method, path] of [
    ['OPTIONS', '/admin/tenants'],
    ['GET', '/admin/tenants'],
    ['GET', '/admin/nothing'],
    ['GET', '/healthz'],
  ] as const) {
    const answer = await fetch(adminUrl + path, { method, headers });
    expect([method, path, corsHeaders(answer.headers)]).toEqual([method, path, []]);
  }
});

function preflight(path: string, headers: Record<string, string>): Promise<Response> {
  return fetch(shared.product.credentials.baseUrl + path, {
    method: 'OPTIONS',
    headers: { Origin: 'https://game.example', ...headers },
  });
}

function corsHeaders(headers: Headers): (readonly [string, string])[] {
  return [...headers].filter(([name]) => name.startsWith('access-control-'));
}

/** Returns the allowed origin, and true if the page can read all headers that a client needs. */
function readable(headers: Headers): [string | null, boolean] {
  const exposed = (headers.get('access-control-expose-headers') ?? '').toLowerCase().split(', ');
  return [
    headers.get('access-control-allow-origin'),
    ['x-request-id', 'retry-after', 'location', 'idempotency-replayed'].every((name) =>
      exposed.includes(name),
    ),
  ];
}
