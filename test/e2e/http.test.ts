/**
 * Tests properties of every answer: the form of problems, methods, paths, and request ids. No answer may contain text from the
 * request body.
 */
import { PROBLEMS } from '@questlog/schemas/http/problem';
import { beforeAll, describe, expect, test } from 'vitest';
import { anEvent, anUnknownId, type TestProject } from './builders.ts';
import type { Answer } from './product.ts';
import { sharedProduct } from './sharedProduct.ts';
import { openWire } from './wire.ts';

const shared = sharedProduct();
let game: TestProject;

beforeAll(async () => {
  game = await shared.aProject({ revision: 'A' });
});

describe('a method that a path does not have', () => {
  test.each([
    ['GET', '/v1/ingest/events', ['POST']],
    ['PUT', '/v1/ingest/events', ['POST']],
    ['DELETE', '/v1/ingest/events', ['POST']],
    ['GET', '/v1/ingest/sessions', ['POST']],
    ['POST', '/v1/quota', ['GET', 'HEAD']],
    ['PATCH', `/v1/events/${anUnknownId()}`, ['GET', 'HEAD']],
    ['POST', `/v1/sessions/${anUnknownId()}`, ['GET', 'HEAD']],
    ['DELETE', `/v1/sessions/${anUnknownId()}/events`, ['GET', 'HEAD']],
    ['POST', '/openapi.json', ['GET', 'HEAD']],
  ])('is a 405 with Allow: %s %s', async (method, path, allowed) => {
    const answer = await game.request(method, path);

    expectProblem(answer, 405, 'method_not_allowed');
    expect((answer.headers.get('allow') ?? '').split(', ').toSorted()).toEqual(allowed);
  });

  test('is a 405 on the admin listener too', async () => {
    const answer = await shared.product.admin('DELETE', '/admin/tenants');

    expectProblem(answer, 405, 'method_not_allowed');
    expect((answer.headers.get('allow') ?? '').split(', ').toSorted()).toEqual(['GET', 'HEAD', 'POST']);
  });
});

describe('a path that does not exist', () => {
  test.each([
    '/',
    '/v1',
    '/v2/ingest/events',
    '/v1/ingest',
    '/v1/event',
    '/v1/ingest/events/x',
    '/V1/quota',
    '/favicon.ico',
  ])('is a 404: %s', async (path) => {
    for (const method of ['GET', 'POST']) expectProblem(await game.request(method, path), 404, 'not_found');
  });

  test.each([
    ['/readyz', "the operators' listener serves it (QUESTLOG_ADMIN_PORT"],
    ['/admin/tenants', "the operators' listener serves it (QUESTLOG_ADMIN_PORT"],
  ])('but is served by the operators’ listener names that listener: %s', async (path, hint) => {
    expect((await game.request('GET', path)).json().detail).toContain(hint);
  });

  test.each([
    ['POST', '/v1/events', 405, 'POST /v1/ingest/events'],
    ['POST', '/v1/sessions', 404, 'POST /v1/ingest/sessions'],
    ['POST', '/v1/reports', 405, 'POST /v1/ingest/reports'],
    ['POST', '/v1/uploads', 404, 'POST /v1/ingest/uploads'],
    ['POST', '/v1/reports/', 405, 'POST /v1/ingest/reports'],
    ['POST', '/v1/event', 404, 'POST /v1/ingest/events'],
    ['POST', '/v1/ingest/event', 404, 'POST /v1/ingest/events'],
    ['POST', '/ingest/events', 404, 'POST /v1/ingest/events'],
    ['POST', '/ingest/events/', 404, 'POST /v1/ingest/events'],
    ['POST', '/events', 404, 'POST /v1/ingest/events'],
    ['POST', '/v1//ingest/events', 404, 'POST /v1/ingest/events'],
    ['POST', '//v1/ingest/events', 404, 'POST /v1/ingest/events'],
    ['POST', '/v1/ingest/events//', 404, 'POST /v1/ingest/events'],
    ['POST', '/V1/Ingest/Events', 404, 'POST /v1/ingest/events'],
    ['POST', '/v1/v1/ingest/events', 404, 'POST /v1/ingest/events'],
    ['GET', '/v1/ingest/events', 405, 'GET /v1/events'],
    ['GET', '/v1/ingest/reports', 405, 'GET /v1/reports'],
    ['GET', '/quota', 404, 'GET /v1/quota'],
  ])('names the probably intended endpoint: %s %s', async (method, path, status, meant) => {
    for (const Authorization of [`Bearer ${game.token}`, 'Bearer qlt_unknown', '']) {
      const answer = await game.request(method, path, { headers: { Authorization } });
      expect([answer.status, answer.json().detail]).toEqual([
        status,
        expect.stringMatching(`is ${meant} meant\\?$`),
      ]);
    }
  });

  test('is a 404 on the admin listener too', async () => {
    expectProblem(await shared.product.admin('GET', '/admin'), 404, 'not_found');
  });

  test.each(['/v1/ingest/events', '/v1/ingest/sessions', '/v1/quota'])(
    'of the API for games names the games’ port on the admin listener: %s',
    async (path) => {
      const answer = await shared.product.admin('POST', path, {});

      expectProblem(answer, 404, 'not_found');
      expect(answer.json().detail).toContain("this is the operators' listener; games use port 8080");
    },
  );
});

describe('HEAD', () => {
  test('answers as GET does, without a body', async () => {
    const [created] = (await game.post(anEvent({ sessionId: game.sessionId }))).json();
    for (const path of [
      `/v1/events/${created.id}`,
      '/v1/quota',
      `/v1/sessions/${game.sessionId}`,
      '/openapi.json',
    ]) {
      const get = await game.get(path);
      const head = await game.request('HEAD', path);
      expect([path, head.status]).toEqual([path, 200]);
      expect(head.bytes).toHaveLength(0);
      expect(head.headers.get('content-type')).toBe(get.headers.get('content-type'));
    }
  });

  test('of an unknown event is a 404 without a body', async () => {
    const answer = await game.request('HEAD', `/v1/events/${anUnknownId()}`);

    expect(answer.status).toBe(404);
    expect(answer.bytes).toHaveLength(0);
  });
});

describe('GET /health', () => {
  test.each([
    ['with a token', `Bearer ${'x'.repeat(40)}`],
    ['without a token', ''],
    ['with another scheme', 'Basic x'],
  ])('confirms that the service is reachable, %s', async (_, Authorization) => {
    const answers = await Promise.all(
      ['GET', 'HEAD'].map((method) => game.request(method, '/health', { headers: { Authorization } })),
    );

    expect(answers.map(({ status }) => status)).toEqual([200, 200]);
    expect(answers[0]?.json()).toEqual({ status: 'ok' });
    expect(answers[1]?.bytes).toHaveLength(0);
  });
});

describe('a problem', () => {
  test('has exactly the fields of RFC 9457, a code, and the texts that game plugins print', async () => {
    const answer = await game.request('GET', `/v1/events/${anUnknownId()}`);

    expect(Object.keys(answer.json()).toSorted()).toEqual([
      'code',
      'detail',
      'error',
      'instance',
      'message',
      'status',
      'title',
      'type',
    ]);
  });

  test('with bad elements has errors with exactly index, pointer, code, and detail', async () => {
    const answer = await game.post([{}, 7]);

    expect(Object.keys(answer.json()).toSorted()).toContain('errors');
    for (const error of answer.json().errors) {
      expect(Object.keys(error).toSorted()).toEqual(['code', 'detail', 'index', 'pointer']);
      expect(Object.keys(PROBLEMS)).toContain(error.code);
    }
  });

  test('has a code and a title of the closed list, and the status of the answer', async () => {
    const answers = [
      await game.post('{'),
      await game.post([]),
      await game.post('x', { 'Content-Type': 'text/plain' }),
      await game.post('x', { Authorization: 'Bearer x' }),
      await game.post(anEvent({ sessionId: anUnknownId() })),
      await game.request('PUT', '/v1/quota'),
    ];
    for (const answer of answers) {
      const { code } = answer.json();
      expectProblem(answer, answer.status, code);
    }
  });
});

test('an invalid HTTP request is also answered with a problem', async () => {
  const wire = await openWire(shared.product.credentials.baseUrl);
  const answer = await wire.ask({ method: 'GET', path: '/health', headers: { 'not a name': 'x' } });

  expect([answer.status, answer.headers.get('content-type')]).toEqual([400, 'application/problem+json']);
  const problem = JSON.parse(answer.text);
  expect(problem).toMatchObject({
    code: 'invalid_request',
    error: problem.title,
    message: problem.detail,
  });
});

describe('X-Request-Id', () => {
  test('is returned in the header and in a problem’s instance', async () => {
    const headers = { 'X-Request-Id': 'build-7:retry.2_a' };
    const good = await game.post(anEvent({ sessionId: game.sessionId }), headers);
    const bad = await game.post('{', headers);

    expect(good.headers.get('x-request-id')).toBe('build-7:retry.2_a');
    expect(bad.headers.get('x-request-id')).toBe('build-7:retry.2_a');
    expect(bad.json().instance).toBe('urn:questlog:request:build-7:retry.2_a');
  });

  test('is generated for each request if the request has none', async () => {
    const [one, other] = [await game.get('/v1/quota'), await game.get('/v1/quota')];

    expect(one.headers.get('x-request-id')).toMatch(/^[0-9a-f-]{36}$/);
    expect(other.headers.get('x-request-id')).not.toBe(one.headers.get('x-request-id'));
  });

  test.each(['a b', '<script>', 'x'.repeat(129), '"quoted"'])(
    'is replaced if the given value is not a plain word: %s',
    async (id) => {
      const answer = await game.request('GET', '/nothing', { headers: { 'X-Request-Id': id } });

      expect(answer.headers.get('x-request-id')).toMatch(/^[0-9a-f-]{36}$/);
      expect(answer.text()).not.toContain(id);
    },
  );

  test('is also sent by the admin listener', async () => {
    const answer = await shared.product.admin('GET', '/admin/nothing');

    expect(answer.json().instance).toBe(`urn:questlog:request:${answer.headers.get('x-request-id')}`);
  });
});

describe('an error', () => {
  const secret = 'hunter2-the-players-own-words';
  const bodies: readonly (readonly [string, string])[] = [
    ['broken JSON', `{"eventType":"${secret}`],
    ['a string', `"${secret}"`],
    ['a word that is not JSON', secret],
    [
      'bad fields',
      JSON.stringify({ eventType: [secret], sessionId: secret, buildId: secret, occurredAt: secret }),
    ],
    ['a payload of the wrong type', JSON.stringify({ eventType: 'x', payload: secret })],
    [
      'an unknown field that is too deep',
      `{"eventType":"x","deep":${'["'.repeat(0)}${'['.repeat(65)}"${secret}"${']'.repeat(65)}}`,
    ],
    ['a lone surrogate', `{"eventType":"${secret}\\ud800"}`],
    ['another body under a key', JSON.stringify({ eventType: secret })],
  ];

  test.each(bodies)(
    'of the events endpoint contains neither text of the body nor a stack trace: %s',
    async (_, body) => {
      const answer = await game.post(body, { 'Idempotency-Key': 'not-a-key' });
      expectSilent(answer);
      expectSilent(await game.post(body));
      expectSilent(await game.post(`[${body},${body}]`, { Prefer: 'handling=lenient' }));
    },
  );

  test.each(bodies)(
    'of the other endpoints contains neither text of the body nor a stack trace: %s',
    async (_, body) => {
      expectSilent(await game.request('POST', '/v1/ingest/sessions', { body }));
      for (const path of ['/admin/tenants', '/admin/projects', '/admin/tokens']) {
        expectSilent(await shared.product.admin('POST', path, body));
      }
    },
  );

  test.each(['%00', '%E0%A4%A', '..%2f..%2fetc', "'%20OR%201=1", '%F0%9F%97%A1'])(
    'for an invalid id is a 404, never a 5xx: %s',
    async (id) => {
      for (const path of [`/v1/events/${id}`, `/v1/sessions/${id}`, `/v1/sessions/${id}/events`]) {
        expect([path, (await game.get(path)).status]).toEqual([path, 404]);
      }
    },
  );

  function expectSilent(answer: Answer): void {
    expect(answer.status).toBeGreaterThanOrEqual(200);
    expect(answer.status).toBeLessThan(500);
    expect(answer.text()).not.toContain('hunter2');
    expect(answer.text()).not.toMatch(/\.ts:\d|node_modules|\\n\s+at /);
    expect([...answer.headers.values()].join()).not.toContain('hunter2');
  }
});

test('a client that disconnects in the middle of its body does not affect other requests', async () => {
  const wire = await openWire(shared.product.credentials.baseUrl);
  const headers = { Authorization: `Bearer ${game.token}`, 'Content-Type': 'application/json' };
  const left = wire.ask({
    path: '/v1/ingest/events',
    headers,
    body: '{"eventType":"x"}',
    sending: 'held back',
  });
  wire.close();
  await expect(left).rejects.toThrow();

  expect((await game.post(anEvent({ sessionId: game.sessionId }))).status).toBe(201);
});

function expectProblem(answer: Answer, status: number, code: keyof typeof PROBLEMS): void {
  expect([answer.status, answer.headers.get('content-type')]).toEqual([
    status,
    expect.stringMatching(/^application\/problem\+json/),
  ]);
  const problem = answer.json();
  expect(problem).toMatchObject({
    type: `urn:questlog:problem:${code}`,
    title: PROBLEMS[code][1],
    status,
    code,
    detail: expect.stringMatching(/\w/),
    instance: `urn:questlog:request:${answer.headers.get('x-request-id')}`,
    error: problem.title,
    message: problem.detail,
  });
  expect(PROBLEMS[code][0]).toBe(status);
}
