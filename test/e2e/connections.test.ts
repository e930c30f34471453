import { Agent, request } from 'node:http';
import { connect } from 'node:net';
import { expect, test } from 'vitest';
import { type Reached, removeDataDir, startProduct } from './product.ts';
import { sharedProduct } from './sharedProduct.ts';

const shared = sharedProduct();

/** One request on the agent's connection; resolves with the status. */
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

/** All that the server says on a connection of its own. */
function talk(raw: string): Promise<string> {
  const { hostname, port } = new URL(shared.product.credentials.baseUrl);
  return new Promise((resolve, reject) => {
    let answer = '';
    const socket = connect(Number(port), hostname, () => socket.write(raw));
    socket.on('data', (chunk) => {
      answer += chunk.toString();
    });
    socket.on('close', () => resolve(answer));
    socket.on('error', reject);
  });
}

test('a connection goes on after a body that was too large for it', async () => {
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

test('answers bytes that are not HTTP with a problem document', async () => {
  const answer = await talk('NOT HTTP\r\n\r\n');
  expect(answer).toMatch(/^HTTP\/1.1 400 /);
  expect(answer).toContain('application/problem+json');
  expect(answer).toContain('"code":"invalid_request"');
});

test('stops with status 0 while one client trickles a body and another keeps asking on one connection', async () => {
  const product = await startProduct();
  const { baseUrl, token } = product.credentials;
  const { hostname, port } = new URL(baseUrl);
  const trickle = connect(Number(port), hostname, () => {
    const head = `POST /v1/ingest/events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${token}\r\n`;
    trickle.write(`${head}Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n[`);
  });
  trickle.on('error', () => {});
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  const asking = (async () => {
    for (;;) await send(product, agent, '/v1/ingest/sessions', '{}');
  })().catch(() => 'the connection ended');
  await send(product, new Agent(), '/v1/ingest/sessions', '{}');
  expect(await product.stop()).toBe(0);
  expect(await asking).toBe('the connection ended');
  trickle.destroy();
  await removeDataDir(product);
});

test('two changes of one tenant at the same time are both kept', async () => {
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
