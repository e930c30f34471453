/** Tests connections: answers before the body arrives, keep-alive, and 100 Continue. */
import { Agent, request } from 'node:http';
import { connect } from 'node:net';
import { beforeAll, describe, expect, test } from 'vitest';
import { aToken, type TestProject } from './builders.ts';
import type { Reached } from './product.ts';
import { sharedProduct } from './sharedProduct.ts';

const shared = sharedProduct();

/** Sends one request on the connection of the agent. @returns the status */
function send(
  { credentials: { baseUrl, token } }: Reached,
  agent: Agent,
  path: string,
  body: string,
): Promise<number | undefined> {
  return new Promise((resolve, reject) => {
    const headers = { Authorization: `Bearer ${token}`, 'Content-Type': 'application/json' };
    const sent = request(`${baseUrl}${path}`, { method: 'POST', agent, headers }, (response) => {
      response.resume();
      response.on('end', () => resolve(response.statusCode));
    });
    sent.on('error', reject);
    sent.end(body);
  });
}

/**
 * Sends raw bytes on a new connection. Sends `more` after the server responds with 100 Continue. @returns all bytes from the
 * server until the server closes the connection
 */
function talk(raw: string, { url = shared.product.credentials.baseUrl, more = '' } = {}): Promise<string> {
  const { hostname, port } = new URL(url);
  return new Promise((resolve, reject) => {
    let answer = '';
    const socket = connect(Number(port), hostname, () => socket.write(raw));
    socket.on('data', (chunk) => {
      answer += chunk.toString();
      if (answer === CONTINUE) socket.write(more);
    });
    socket.on('close', () => resolve(answer));
    socket.on('error', reject);
  });
}

test('a client reads the answer to a body that is too large and reuses the connection', async () => {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  const large = JSON.stringify({ id: 'x'.repeat(2 * 1024 * 1024) });
  expect(await send(shared.product, agent, '/v1/ingest/sessions', large)).toBe(413);
  expect(await send(shared.product, agent, '/v1/ingest/sessions', '{}')).toBe(201);
  expect(await send(shared.product, agent, '/v1/ingest/events', `["${'x'.repeat(9 * 1024 * 1024)}"]`)).toBe(
    413,
  );
  expect(await send(shared.product, agent, '/v1/ingest/sessions', '{}')).toBe(201);
  agent.destroy();
});

const CONTINUE = 'HTTP/1.1 100 Continue\r\n\r\n';

describe('a request that is answered before its body arrives', () => {
  let game: TestProject;
  let reader: string;
  beforeAll(async () => {
    game = await shared.aProject();
    reader = (await aToken(shared.product, game.projectId, { scopes: ['read'] })).token;
  });

  const json = 'Content-Type: application/json';
  const LONG = 'Content-Length: 5000000';
  const as = (token: string): string => `Authorization: Bearer ${token}`;
  const cases: readonly [status: number, line: string, headers: () => readonly string[]][] = [
    [401, 'POST /v1/ingest/events', () => [json, LONG]],
    [401, 'POST /v1/ingest/sessions', () => [json, 'Transfer-Encoding: chunked']],
    [401, 'POST /v1/ingest/uploads', () => [json, as('unknown'), LONG]],
    [401, 'GET /v1/quota', () => [LONG]],
    [403, 'POST /v1/ingest/reports', () => [json, as(reader), LONG]],
    [403, 'PUT /v1/uploads/x?signature=x', () => [LONG]],
    [404, 'POST /nothing', () => [LONG]],
    [405, 'PUT /v1/ingest/events', () => [LONG]],
    [413, 'POST /v1/ingest/events', () => [json, as(game.token), 'Content-Length: 9000000']],
    [413, 'POST /v1/ingest/uploads', () => [json, as(game.token), 'Content-Length: 9000000']],
    [415, 'POST /v1/ingest/events', () => ['Content-Type: text/plain', as(game.token), LONG]],
    [415, 'POST /v1/ingest/uploads', () => ['Content-Type: text/plain', as(game.token), LONG]],
    [417, 'POST /v1/ingest/events', () => [json, as(game.token), 'Expect: 200-ok', LONG]],
    [200, 'GET /openapi.json', () => [LONG]],
    [200, 'GET /health', () => [LONG]],
  ];

  test.each(cases)('closes the connection after a %i: %s', async (status, line, headers) => {
    const answer = await talk([`${line} HTTP/1.1`, 'Host: x', ...headers(), '', ''].join('\r\n'));

    expect(answer).toMatch(new RegExp(`^HTTP/1.1 ${status} `));
    expect(answer).toContain('\r\nConnection: close\r\n');
    expect(answer).toContain('\r\nCache-Control: no-store\r\n');
    expect(answer).toContain('\r\nX-Content-Type-Options: nosniff\r\n');
    if (status !== 200) expect(answer).toContain(`"status":${status},`);
  });

  test.each([
    [401, 'POST /admin/tenants'],
    [405, 'PUT /healthz'],
  ])('closes the connection after a %i on the operators’ listener: %s', async (status, line) => {
    const { adminUrl: url } = shared.product.credentials;
    const answer = await talk(`${line} HTTP/1.1\r\nHost: localhost\r\n${LONG}\r\n\r\n`, { url });

    expect(answer).toMatch(new RegExp(`^HTTP/1.1 ${status} `));
    expect(answer).toContain('\r\nConnection: close\r\n');
    expect(answer).toContain('\r\nCache-Control: no-store\r\n');
  });

  // Keeps the connection, because a new connection would cost the client and the server more than reading the body.
  test('keeps the connection if the whole body arrived with the head', async () => {
    const rejected = (line: string, ...headers: string[]): string =>
      [`${line} HTTP/1.1`, 'Host: x', ...headers, 'Content-Length: 3', '', '[7]'].join('\r\n');
    const answer = await talk(
      rejected('POST /v1/ingest/events', json) +
        rejected('POST /v1/ingest/events', json, as(reader)) +
        rejected('POST /nothing') +
        'GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n',
    );
    expect(answer.match(/HTTP\/1.1 \d+/g)).toEqual(
      [401, 403, 404, 200].map((status) => `HTTP/1.1 ${status}`),
    );
  });

  test('gets a 100 Continue only if its token and its headers are valid', async () => {
    const expecting = (path: string, ...headers: string[]): string =>
      [`POST ${path} HTTP/1.1`, 'Host: x', 'Expect: 100-continue', ...headers, '', ''].join('\r\n');
    const more = '{"attachmentType":"other","fileName":"a","mimeType":"text/plain"}';
    const length = `Content-Length: ${more.length}`;

    expect(await talk(expecting('/v1/ingest/uploads', json, length))).toMatch(/^HTTP\/1.1 401 /);
    expect(await talk(expecting('/v1/ingest/events', json, as(reader), length))).toMatch(/^HTTP\/1.1 403 /);
    expect(await talk(expecting('/v1/ingest/sessions', as(game.token), length))).toMatch(/^HTTP\/1.1 415 /);
    for (const [path, status] of [
      ['/v1/ingest/uploads', 201],
      ['/v1/ingest/sessions', 201],
    ] as const) {
      const good = expecting(path, json, as(game.token), 'Connection: close', length);
      const answer = await talk(good, { more });
      expect(answer.startsWith(`${CONTINUE}HTTP/1.1 ${status} `)).toBe(true);
    }
  });
});

test('answers bytes that are not HTTP with a problem document', async () => {
  const answer = await talk('NOT HTTP\r\n\r\n');
  expect(answer).toMatch(/^HTTP\/1.1 400 /);
  expect(answer).toContain('application/problem+json');
  expect(answer).toContain('"code":"invalid_request"');
});

test('concurrent changes of one tenant all take effect', async () => {
  const { product } = shared;
  const { tenantId } = await shared.aProject();
  const path = `/admin/tenants/${tenantId}`;
  await Promise.all([
    product.admin('PATCH', path, { monthlySoftQuota: 77 }),
    product.admin('PATCH', path, { spread: 3 }),
    product.admin('PATCH', path, { name: 'Renamed' }),
  ]);
  const tenants: { id: string }[] = (await product.admin('GET', '/admin/tenants')).json();
  expect(tenants.find(({ id }) => id === tenantId)).toMatchObject({
    monthlySoftQuota: 77,
    spread: 3,
    name: 'Renamed',
  });
});
