/**
 * Tests access control. A request gets a 401 before its body is read, or a 403 if a scope is missing. No token has access to
 * other projects.
 */
import { once } from 'node:events';
import { request } from 'node:http';
import { beforeAll, describe, expect, test } from 'vitest';
import { anEvent, anUnknownId, aToken, eventually, type TestProject } from './builders.ts';
import type { Answer } from './product.ts';
import { sharedProduct } from './sharedProduct.ts';
import { openWire } from './wire.ts';

const shared = sharedProduct();
let game: TestProject;

beforeAll(async () => {
  game = await shared.aProject({ revision: 'A' });
});

const operations: readonly (readonly [string, string])[] = [
  ['POST', '/v1/ingest/events'],
  ['POST', '/v1/ingest/sessions'],
  ['GET', `/v1/sessions/${anUnknownId()}`],
  ['GET', `/v1/sessions/${anUnknownId()}/events`],
  ['GET', `/v1/events/${anUnknownId()}`],
  ['GET', '/v1/quota'],
];

const invalidHeaders: readonly (readonly [string, string])[] = [
  ['an empty header', ''],
  ['a scheme alone', 'Bearer'],
  ['another scheme', 'Basic cXVlc3Q6bG9n'],
  ['an unknown token', 'Bearer qlt_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA'],
  ['two tokens', 'Bearer one two'],
  ['characters that no token has', 'Bearer "token"'],
];

describe.concurrent('without a valid token', () => {
  test.each(operations)(
    '%s %s is a 401 with WWW-Authenticate for every invalid header',
    async (method, path) => {
      for (const [name, header] of invalidHeaders) {
        const answer = await as(header, method, path);
        expect([name, answer.status]).toEqual([name, 401]);
        expect(answer.headers.get('www-authenticate')).toMatch(/^Bearer realm="questlog"/);
        expect(answer.json()).toMatchObject({ code: 'unauthorized', status: 401 });
      }
    },
  );

  test('a 401 distinguishes a missing token from an invalid one (RFC 6750)', async () => {
    const missing = await as('', 'GET', '/v1/quota');
    const invalid = await as('Bearer nobody', 'GET', '/v1/quota');

    expect(missing.headers.get('www-authenticate')).not.toContain('error=');
    expect(invalid.headers.get('www-authenticate')).toContain('error="invalid_token"');
  });

  test.each(['/v1/ingest/events', '/v1/ingest/sessions'])(
    '%s answers before the body arrives',
    async (path) => {
      const wire = await openWire(shared.product.credentials.baseUrl);
      const headers = { Authorization: 'Bearer nobody', 'Content-Type': 'application/json' };
      const answer = await wire.ask({ path, headers, body: '[{"eventType":"x"}]', sending: 'held back' });

      expect(answer.status).toBe(401);
      wire.close();
    },
  );

  test('a request that is also invalid is a 401, not a 400, 413, or 415', async () => {
    const nobody = { Authorization: 'Bearer nobody' };

    expect((await game.post('{', nobody)).status).toBe(401);
    expect((await game.post(Buffer.alloc(9 * 1024 * 1024), nobody)).status).toBe(401);
    expect((await game.post('x', { ...nobody, 'Content-Type': 'text/plain' })).status).toBe(401);
    expect((await game.post('x', { ...nobody, 'Idempotency-Key': 'x' })).status).toBe(401);
  });

  test('a token in the query string is ignored', async () => {
    expect((await as('', 'GET', `/v1/quota?access_token=${game.token}`)).status).toBe(401);
  });
});

describe.concurrent('a valid token', () => {
  test.each(['bearer', 'BEARER', 'Bearer '])(
    'is accepted with the scheme in any case and with extra spaces: %j',
    async (scheme) => {
      expect((await as(`${scheme} ${game.token}`, 'GET', '/v1/quota')).status).toBe(200);
    },
  );

  test('is a project token: the public listener rejects the admin token', async () => {
    const { adminToken } = shared.product.credentials;

    expect((await as(`Bearer ${adminToken}`, 'GET', '/v1/quota')).status).toBe(401);
  });

  test('never appears in the log of the process', async () => {
    await as(`Bearer ${game.token}`, 'POST', '/v1/ingest/events');

    expect(shared.product.output()).not.toContain(game.token);
  });
});

describe.concurrent('the scope', () => {
  const writes = operations.filter(([method]) => method === 'POST');
  const reads = operations.filter(([method]) => method === 'GET');

  test('events:write is required to send events and to register sessions', async () => {
    for (const scopes of [['read'], ['reports:write'], ['read', 'reports:write']]) {
      const { token } = await aToken(shared.product, game.projectId, { scopes });
      for (const [method, path] of writes)
        expectForbidden(await as(`Bearer ${token}`, method, path), 'events:write');
    }
  });

  test('read is required for every GET', async () => {
    const { token } = await aToken(shared.product, game.projectId, {
      scopes: ['events:write', 'reports:write'],
    });

    for (const [method, path] of reads) expectForbidden(await as(`Bearer ${token}`, method, path), 'read');
  });

  test('is sufficient without the other scopes', async () => {
    const writer = await aToken(shared.product, game.projectId, { scopes: ['events:write'] });
    const reader = await aToken(shared.product, game.projectId, { scopes: ['read'] });
    const event = anEvent({ sessionId: game.sessionId });

    const posted = await game.post(event, { Authorization: `Bearer ${writer.token}` });
    expect(posted.status).toBe(201);
    expect((await as(`Bearer ${reader.token}`, 'GET', `/v1/events/${posted.json()[0].id}`)).status).toBe(200);
  });

  test('is checked before the body arrives', async () => {
    const { token } = await aToken(shared.product, game.projectId, { scopes: ['read'] });
    const wire = await openWire(shared.product.credentials.baseUrl);
    const headers = { Authorization: `Bearer ${token}`, 'Content-Type': 'application/json' };
    const answer = await wire.ask({ path: '/v1/ingest/events', headers, body: '{}', sending: 'held back' });

    expect(answer.status).toBe(403);
    wire.close();
  });

  test('defaults to the write scopes without read, and the answer lists them', async () => {
    const { id, scopes } = await aToken(shared.product, game.projectId);
    const listed: { id: string; scopes: string[] }[] = (
      await shared.product.admin('GET', '/admin/tokens')
    ).json();

    expect(scopes.toSorted()).toEqual(['events:write', 'reports:write']);
    expect(listed.find((token) => token.id === id)?.scopes).toEqual(scopes);
  });
});

describe.concurrent('a token', () => {
  test('is a 401 within 2 s of its revocation', async () => {
    const { id, token } = await aToken(shared.product, game.projectId, { scopes: ['read'] });
    expect((await as(`Bearer ${token}`, 'GET', '/v1/quota')).status).toBe(200);
    expect((await shared.product.admin('DELETE', `/admin/tokens/${id}`)).status).toBe(204);

    await eventually(
      () => as(`Bearer ${token}`, 'GET', '/v1/quota'),
      ({ status }) => status === 401,
      2_000,
    );
    expect((await game.get('/v1/quota')).status).toBe(200);
  });

  test('is a 401 if it is revoked while the body is sent', async () => {
    const { id, token } = await aToken(shared.product, game.projectId);
    const sent = request(`${shared.product.credentials.baseUrl}/v1/ingest/events`, {
      method: 'POST',
      headers: {
        Authorization: `Bearer ${token}`,
        'Content-Type': 'application/json',
        Expect: '100-continue',
      },
    });
    const answered = once(sent, 'response');
    sent.flushHeaders();
    await once(sent, 'continue');
    expect((await shared.product.admin('DELETE', `/admin/tokens/${id}`)).status).toBe(204);
    sent.end(JSON.stringify(anEvent({ sessionId: game.sessionId })));

    const [answer] = await answered;
    expect(answer.statusCode).toBe(401);
  });

  test('works until its expiresAt and is a 401 afterwards', async () => {
    const expiresAtMs = Date.now() + 3_000;
    const { token } = await aToken(shared.product, game.projectId, {
      expiresAt: new Date(expiresAtMs).toISOString(),
    });
    const event = anEvent({ sessionId: game.sessionId });
    expect((await game.post(event, { Authorization: `Bearer ${token}` })).status).toBe(201);

    const rejected = await eventually(
      () => game.post(event, { Authorization: `Bearer ${token}` }),
      ({ status }) => status !== 201,
      6_000,
    );
    expect(rejected.status).toBe(401);
    expect(Date.now()).toBeGreaterThanOrEqual(expiresAtMs);
  });
});

describe.concurrent.each([
  ['of another tenant', false],
  ['of the same tenant', true],
])('the data of another project %s', (_, isSameTenant) => {
  let other: TestProject;

  beforeAll(async () => {
    other = await shared.aProject({ revision: 'A', ...(isSameTenant ? { tenantId: game.tenantId } : {}) });
  });

  test('includes no usable session: events that name it are rejected exactly like an unknown session', async () => {
    const [foreign, unknown] = [await other.session(), anUnknownId()];
    const withForeign = await game.post([anEvent({ sessionId: foreign })]);
    const withUnknown = await game.post([anEvent({ sessionId: unknown })]);

    expect(withForeign.status).toBe(404);
    expect(withoutIds(withForeign, foreign)).toEqual(withoutIds(withUnknown, unknown));
    expect((await other.get(`/v1/sessions/${foreign}/events`)).json().events).toEqual([]);
  });

  test('cannot be read: the answers equal those for unknown ids', async () => {
    const [created] = (await other.post(anEvent({ sessionId: other.sessionId }))).json();
    const unknownEvent = `${created.id.slice(0, 24)}000000000000`;
    const unknown = anUnknownId();
    const pairs: [string, string, string][] = [
      [`/v1/sessions/${other.sessionId}`, other.sessionId, unknown],
      [`/v1/sessions/${other.sessionId}/events`, other.sessionId, unknown],
      [`/v1/events/${created.id}`, created.id, unknownEvent],
    ];
    for (const [path, foreign, none] of pairs) {
      const withForeign = await game.get(path);
      const withUnknown = await game.get(path.replace(foreign, none));
      expect(withForeign.status).toBe(404);
      expect(withoutIds(withForeign, foreign)).toEqual(withoutIds(withUnknown, none));
    }
    expect((await other.get(`/v1/events/${created.id}`)).json()).toEqual(created);
  });
});

function as(authorization: string, method: string, path: string): Promise<Answer> {
  const body = method === 'POST' ? { body: {} } : {};
  return game.request(method, path, { ...body, headers: { Authorization: authorization } });
}

function expectForbidden(answer: Answer, scope: string): void {
  expect(answer.status).toBe(403);
  expect(answer.json()).toMatchObject({ code: 'forbidden', status: 403 });
  const challenge = answer.headers.get('www-authenticate');
  expect(challenge).toContain('error="insufficient_scope"');
  expect(challenge).toContain(`scope="${scope}"`);
}

/** Returns the answer without the id from the request, the request id, and the date. */
function withoutIds(answer: Answer, id: string): object {
  const headers = [...answer.headers].filter(([name]) => name !== 'x-request-id' && name !== 'date');
  const { instance, ...problem } = JSON.parse(answer.text().replaceAll(id, '<id>'));
  expect(instance).toMatch(/^urn:questlog:request:/);
  return { status: answer.status, headers, problem };
}
