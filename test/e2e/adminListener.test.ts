/** Tests the admin listener: authentication, rejected requests, and the health, readiness, and metrics that need no token. */
import { once } from 'node:events';
import { get, type IncomingMessage } from 'node:http';
import { text } from 'node:stream/consumers';
import { beforeAll, describe, expect, test } from 'vitest';
import { anEvent, anUnknownId, eventually, type TestProject } from './builders.ts';
import type { Answer } from './product.ts';
import { sharedProduct } from './sharedProduct.ts';

const shared = sharedProduct();
const admin = (method: string, path: string, body?: unknown): Promise<Answer> =>
  shared.product.admin(method, `/admin${path}`, body);

describe('an id that does not exist', () => {
  test.each([
    ['PATCH', '/tenants/:id', { name: 'x' }],
    ['PATCH', '/projects/:id', { name: 'x' }],
    ['DELETE', '/tokens/:id', undefined],
    ['POST', '/projects', { tenantId: ':id', name: 'x' }],
    ['POST', '/tokens', { projectId: ':id' }],
  ])('is a 404: %s /admin%s', async (method, path, body) => {
    const id = anUnknownId();
    const text = body === undefined ? undefined : JSON.stringify(body).replace(':id', id);
    const answer = await admin(method, path.replace(':id', id), text);

    expect(answer.status).toBe(404);
    expect(answer.json().code).toBe('not_found');
  });

  test.each(['/tenants/x', '/projects/x'])('is a 404 if it is not a UUID: PATCH /admin%s', async (path) => {
    expect((await admin('PATCH', path, { name: 'x' })).status).toBe(404);
  });
});

describe('an invalid admin request body', () => {
  const tenantId = anUnknownId();

  test.each([
    ['POST', '/tenants', {}, ['/name']],
    ['POST', '/tenants', { name: '' }, ['/name']],
    ['POST', '/tenants', { name: 'x'.repeat(201) }, ['/name']],
    ['POST', '/tenants', { name: 7, id: 'x' }, ['/id', '/name']],
    ['POST', '/tenants', { name: 'x', monthlySoftQuota: -1 }, ['/monthlySoftQuota']],
    ['POST', '/tenants', { name: 'x', monthlySoftQuota: 1.5 }, ['/monthlySoftQuota']],
    ['POST', '/tenants', { name: 'x', monthlySoftQuota: '5' }, ['/monthlySoftQuota']],
    ['POST', '/tenants', { name: 'x', spread: 0 }, ['/spread']],
    ['POST', '/tenants', { name: 'x', spread: 4097 }, ['/spread']],
    ['POST', '/projects', { name: 'x' }, ['/tenantId']],
    ['POST', '/projects', { tenantId, name: 'x', revision: 'C' }, ['/revision']],
    ['POST', '/projects', { tenantId: 'x', name: 'x' }, ['/tenantId']],
    ['POST', '/tokens', {}, ['/projectId']],
    ['POST', '/tokens', { projectId: tenantId, scopes: [] }, ['/scopes']],
    ['POST', '/tokens', { projectId: tenantId, scopes: ['write'] }, ['/scopes/0']],
    ['POST', '/tokens', { projectId: tenantId, scopes: 'read' }, ['/scopes']],
    ['POST', '/tenants', { name: 'x', monthlyQuota: 5, quota: null }, ['/monthlyQuota', '/quota']],
    ['PATCH', `/tenants/${tenantId}`, { monthlyQuota: 5 }, ['/monthlyQuota']],
    ['POST', '/projects', { tenantId, name: 'x', rev: 'B' }, ['/rev']],
    ['PATCH', `/projects/${tenantId}`, { id: tenantId }, ['/id']],
    ['POST', '/tokens', { projectId: tenantId, expires: '2199-01-01' }, ['/expires']],
    ['POST', '/links/retry', { tenant: tenantId }, ['/tenant']],
    ['POST', '/sql', { query: 'SELECT 1', limit: 5 }, ['/limit']],
    ['POST', '/sql', {}, ['/query']],
    ['POST', '/sql', { query: '' }, ['/query']],
  ])('is a 400 that names the field: %s /admin%s %j', async (method, path, body, pointers) => {
    const answer = await admin(method, path, body);

    expect(answer.status).toBe(400);
    expect(pointersIn(answer)).toEqual(pointers);
  });

  test.each([
    ['not a timestamp', 'tomorrow'],
    ['in the past', '2026-01-01T00:00:00Z'],
  ])('is a 400 that names expiresAt if it is %s', async (_, expiresAt) => {
    const { projectId } = await shared.aProject();
    const answer = await admin('POST', '/tokens', { projectId, expiresAt });

    expect(answer.status).toBe(400);
    expect(pointersIn(answer)).toEqual(['/expiresAt']);
  });

  test.each([['[]'], ['null'], ['{'], ['7']])('is a 400 if it is not an object: %s', async (body) => {
    expect((await admin('POST', '/tenants', body)).status).toBe(400);
  });
});

describe('the admin listener', () => {
  let game: TestProject;

  beforeAll(async () => {
    game = await shared.aProject();
  });

  test('requires the admin token and rejects a game’s token', async () => {
    for (const header of [undefined, 'Bearer nobody', `Bearer ${game.token}`]) {
      for (const path of ['/admin/tenants', '/admin/projects', '/admin/tokens', '/admin/sql']) {
        const method = path === '/admin/sql' ? 'POST' : 'GET';
        const answer = await fetch(shared.product.credentials.adminUrl + path, {
          method,
          headers: {
            'Content-Type': 'application/json',
            ...(header === undefined ? {} : { Authorization: header }),
          },
          ...(method === 'POST' ? { body: '{"query":"SELECT 1"}' } : {}),
        });
        expect([path, answer.status]).toEqual([path, 401]);
        expect(answer.headers.get('www-authenticate')).toMatch(/^Bearer /);
        const { detail } = (await answer.json()) as { detail: string };
        expect(detail.includes('the token of a project')).toBe(header?.includes(game.token) ?? false);
      }
    }
  });

  test('is separate from the public listener, which serves none of its paths', async () => {
    const { adminToken } = shared.product.credentials;
    for (const path of ['/admin/tenants', '/admin/sql', '/metrics']) {
      const answer = await shared.product.request('GET', path, {
        headers: { Authorization: `Bearer ${adminToken}` },
      });
      expect([path, answer.status]).toEqual([path, 404]);
    }
    expect((await admin('GET', '/../v1/quota')).status).toBe(404);
  });

  test('answers health, readiness and metrics without a token', async () => {
    const { adminUrl } = shared.product.credentials;
    const health = await fetch(`${adminUrl}/healthz`);
    const metrics = await fetch(`${adminUrl}/metrics`);

    expect([health.status, await health.json()]).toEqual([200, { status: 'ok' }]);
    expect(metrics.status).toBe(200);
    expect(metrics.headers.get('content-type')).toMatch(/^text\/plain; version=0\.0\.4/);
    const type = 'application/openmetrics-text; version=1.0.0';
    const openMetrics = await fetch(`${adminUrl}/metrics`, {
      headers: { Accept: `${type},text/plain;q=0.5` },
    });
    expect(openMetrics.headers.get('content-type')).toBe(`${type}; charset=utf-8`);
    expect(await openMetrics.text()).toMatch(/^questlog_events_accepted_total \d+$[\s\S]*\n# EOF\n$/m);
    await eventually(
      async () => (await fetch(`${adminUrl}/readyz`)).status,
      (status) => status === 200,
    );
  });

  test('counts requests and events in its metrics', async () => {
    const before = await metric('questlog_events_accepted_total');
    await game.request('POST', '/v1/ingest/events', { body: [anEvent({ sessionId: game.sessionId })] });

    expect(await metric('questlog_events_accepted_total')).toBeGreaterThan(before);
    expect(
      await metric('questlog_http_requests_total{route="/v1/ingest/events",method="POST",status="201"}'),
    ).toBeGreaterThan(0);
  });
});

describe.concurrent('an admin request with a foreign Host header (DNS rebinding)', () => {
  test.each(['evil.example', 'evil.example:8081', 'localhost.evil.example', '127.0.0.2', '0.0.0.0', 'a b'])(
    'is a 421 even with the admin token: %s',
    async (host) => {
      const paths = ['/admin/tenants', '/admin/sql', '/nothing', '/'];
      expect(await Promise.all(paths.map((path) => statusAt(path, host)))).toEqual(paths.map(() => 421));
    },
  );

  test('gets a 421 that names the port for games', async () => {
    const { body } = await answerOf('/v1/ingest/events', 'telemetry.example:8081');
    expect(body).toContain("this is the operators' listener; games use port 8080");
  });

  test.each(['127.0.0.1', 'localhost:1', 'LOCALHOST', '[::1]:8081'])(
    'is answered if the host is loopback: %s',
    async (host) => {
      expect(await statusAt('/admin/tenants', host)).toBe(200);
    },
  );

  test('can read health, readiness, and metrics', async () => {
    const paths = ['/healthz', '/readyz', '/metrics'];
    expect(await Promise.all(paths.map((path) => statusAt(path, 'evil.example')))).toEqual([200, 200, 200]);
  });
});

async function statusAt(path: string, host: string): Promise<number | undefined> {
  return (await answerOf(path, host)).status;
}

async function answerOf(path: string, host: string): Promise<{ status: number | undefined; body: string }> {
  const { adminUrl, adminToken } = shared.product.credentials;
  const headers = { Host: host, Authorization: `Bearer ${adminToken}` };
  const [answer] = (await once(get(adminUrl + path, { headers }), 'response')) as [IncomingMessage];
  return { status: answer.statusCode, body: await text(answer) };
}

async function metric(name: string): Promise<number> {
  const text = await (await fetch(`${shared.product.credentials.adminUrl}/metrics`)).text();
  const line = text.split('\n').find((each) => each.startsWith(`${name} `));
  return Number(line?.slice(name.length) ?? Number.NaN);
}

function pointersIn(answer: Answer): string[] {
  const errors: { pointer: string }[] = answer.json().errors;
  return errors.map(({ pointer }) => pointer).toSorted();
}
