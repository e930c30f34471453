/**
 * Tests that the audit log records each change by an operator and each rejected credential. A record contains the actor, the
 * target, the values before and after, and the address. It contains no secrets.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { AuditRecord } from '@questlog/schemas/http/audit';
import { beforeAll, describe, expect, test, vi } from 'vitest';
import { anUnknownId, eventually } from './builders.ts';
import { bugsIn, type Product, removeDataDir, startProduct } from './product.ts';
import { questlogCommand } from './questlogCommand.ts';

const FLOOD = 400;
const UUID = /^[0-9a-f-]{36}$/;

describe('the audit log', () => {
  let product: Product;
  let dataDir: string;
  /** A token that this test creates and revokes. No record and no file may contain the token. */
  let secret: string;
  const [tenant, project, other] = [anUnknownId(), anUnknownId(), anUnknownId()];
  const ids: Record<string, string> = {};

  const ask = async (query = ''): Promise<{ audit: AuditRecord[]; next: string | null }> =>
    (await product.admin('GET', `/admin/audit${query}`)).json();
  const written = (records: number, query = '') =>
    eventually(
      async () => (await ask(query)).audit,
      (audit) => audit.length >= records && audit.every(({ status }) => status !== null),
    );
  const withToken = (path: string, token: string, method = 'GET') =>
    fetch(product.credentials.adminUrl + path, { method, headers: { Authorization: `Bearer ${token}` } });

  beforeAll(async () => {
    product = await startProduct();
    dataDir = product.dataDir;
    return async () => {
      expect(await product.stop()).toBe(0);
      expect(bugsIn(product.stderr())).toEqual([]);
      await removeDataDir(product);
    };
  });

  test('records the actor, target, state before and after, and answer of each change', async () => {
    const limits = { eventsPerSecond: 5 };
    await product.admin('POST', '/admin/tenants', { id: tenant, name: 'Fox studio' });
    await product.admin('POST', '/admin/projects', { id: project, tenantId: tenant, name: 'Fox Run' });
    const made = (await product.admin('POST', '/admin/tokens', { projectId: project })).json();
    [secret, ids['token']] = [made.token, made.id];
    await product.admin('PATCH', `/admin/projects/${project}`, { limits });
    await product.admin('PATCH', `/admin/tenants/${tenant.toUpperCase()}`, { suspended: true });
    await product.admin('DELETE', `/admin/tokens/${made.id}`);
    await product.admin('PATCH', `/admin/projects/${other}`, { name: 'None' });

    const records = await written(7);
    const summaries = records.map(({ method, route, target, status, code }) => [
      method,
      route,
      target,
      status,
      code,
    ]);
    expect(summaries).toEqual([
      ['PATCH', '/admin/projects/:id', other, 404, 'not_found'],
      ['DELETE', '/admin/tokens/:id', made.id, 204, null],
      ['PATCH', '/admin/tenants/:id', tenant, 200, null],
      ['PATCH', '/admin/projects/:id', project, 200, null],
      ['POST', '/admin/tokens', made.id, 201, null],
      ['POST', '/admin/projects', project, 201, null],
      ['POST', '/admin/tenants', tenant, 201, null],
    ]);
    const [, revoked, suspended, limited, tokenMade, , tenantMade] = records;
    expect(tenantMade).toMatchObject({
      ...{ kind: 'change', before: null, after: { id: tenant, name: 'Fox studio', suspended: false } },
      ...{ id: expect.stringMatching(UUID), tenantId: tenant, projectId: null, count: 1 },
      ...{ address: '127.0.0.1', actor: expect.stringMatching(/^token:[0-9a-f]{8}$/) },
      body: { id: tenant, name: 'Fox studio' },
    });
    expect(limited).toMatchObject({
      ...{ body: { limits }, before: { name: 'Fox Run', limits: null }, after: { name: 'Fox Run', limits } },
      ...{ tenantId: tenant, projectId: project },
    });
    expect(suspended).toMatchObject({ before: { suspended: false }, after: { suspended: true } });
    expect(tokenMade).toMatchObject({ before: null, after: { projectId: project, sha256: '***' } });
    expect(revoked).toMatchObject({
      before: { id: made.id },
      after: null,
      tenantId: tenant,
      projectId: project,
    });
    expect(Date.parse(revoked?.doneAt ?? '')).toBeGreaterThanOrEqual(Date.parse(revoked?.at ?? ''));
  });

  test('filters by time, actor, project, and tenant, and returns pages', async () => {
    const all = await written(7);
    const [newest, , third] = all;
    const own = newest?.actor ?? '';
    const lengthOf = async (query: string) => (await ask(query)).audit.length;
    expect(await lengthOf(`?tenant=${tenant}`)).toBe(6);
    expect(await lengthOf(`?project=${project}`)).toBe(4);
    expect(await lengthOf(`?actor=${own}`)).toBe(7);
    expect(await lengthOf('?actor=console')).toBe(0);
    expect(await lengthOf(`?since=${third?.at}`)).toBe(3);
    expect(await lengthOf(`?until=${third?.at}`)).toBe(4);
    const paged: AuditRecord[] = [];
    for (let cursor: string | null = ''; cursor !== null; ) {
      const page = await ask(`?limit=3${cursor === '' ? '' : `&cursor=${cursor}`}`);
      paged.push(...page.audit);
      cursor = page.next;
    }
    expect(paged).toEqual(all);
    expect((await product.admin('GET', '/admin/audit?since=yesterday')).status).toBe(400);
  });

  test('distinguishes console sessions from rejected credentials and records no secret', async () => {
    const { adminUrl, token: gameToken } = product.credentials;
    const origin = { Origin: adminUrl, 'Content-Type': 'application/json' };
    const signIn = (token: string) =>
      fetch(`${adminUrl}/login`, { method: 'POST', headers: origin, body: JSON.stringify({ token }) });
    const Cookie =
      (await signIn(product.credentials.adminToken)).headers.get('Set-Cookie')?.split(';')[0] ?? '';
    const body = JSON.stringify({ name: 'By hand' });
    const headers = { ...origin, Cookie };
    await fetch(`${adminUrl}/admin/projects/${project}`, { method: 'PATCH', headers, body });
    const [byHand] = await written(1, '?actor=console');
    expect(byHand).toMatchObject({ actor: expect.stringMatching(/^console:[0-9a-f]{16}$/), status: 200 });

    expect((await withToken('/admin/tenants', gameToken)).status).toBe(401);
    expect((await signIn('not-the-admin-token-either')).status).toBe(401);
    // Sends a token in a path that expects an id, and a token in an unknown field.
    await product.admin('DELETE', `/admin/tokens/${secret}`);
    expect((await product.admin('POST', '/admin/tokens', { projectId: project, token: secret })).status).toBe(
      400,
    );
    const records = await written(11);
    expect(records.slice(0, 2)).toMatchObject([
      { method: 'POST', status: 400, body: { projectId: project, token: '***' } },
      { method: 'DELETE', status: 404, target: '***' },
    ]);
    expect(records.find(({ kind }) => kind === 'refusal')).toMatchObject({
      ...{ actor: expect.stringMatching(/^game-token:/), route: '/admin/tenants', method: 'GET' },
      ...{ status: 401, code: 'unauthorized', address: '127.0.0.1', body: null, count: 1 },
    });
  });

  test('combines a flood of rejected tokens into a few records with counts, across a restart', async () => {
    const before = await ask('?limit=1000');
    const answers = new Set<number>();
    for (let n = 0; n < FLOOD; n += 20) {
      const some = Array.from({ length: 20 }, (_, i) =>
        withToken('/admin/projects', `guess-${n + i}`, 'POST'),
      );
      for (const { status } of await Promise.all(some)) answers.add(status);
    }
    expect([...answers]).toEqual([401]);
    expect(await product.stop()).toBe(0);
    expect(bugsIn(product.stderr())).toEqual([]);
    product = await startProduct({ dataDir });

    const guesses = ({ kind, actor }: AuditRecord) => kind === 'refusal' && !actor.startsWith('game-token');
    const records = await eventually(
      async () => (await ask('?limit=1000')).audit,
      // Expects one record more than the flood, because the failed sign-in is also recorded.
      (all) => sum(all.filter(guesses)) === FLOOD + 1,
    );
    expect(records.filter(guesses).length).toBeLessThanOrEqual(6);
    expect(records.filter(({ kind }) => kind === 'change')).toEqual(
      before.audit.filter(({ kind }) => kind === 'change'),
    );
  });

  test('is printed by questlog audit as a table and as JSON', async () => {
    const { adminUrl, adminToken } = product.credentials;
    const env = { QUESTLOG_ADMIN_URL: adminUrl, QUESTLOG_ADMIN_TOKEN: adminToken };
    const run = (...args: string[]) => questlogCommand(['audit', '--project', project, ...args], { env });
    const { audit } = await ask(`?project=${project}`);
    expect(JSON.parse((await run('--since', '1h', '--json')).stdout)).toEqual(audit);
    const { stdout, code } = await run();
    expect(code).toBe(0);
    expect(stdout).toMatch(/PATCH +\/admin\/projects\/:id +\S+ +200 +1 +\{"limits":\{"eventsPerSecond":5/);
    expect(stdout).toMatch(/DELETE +\/admin\/tokens\/:id +\S+ +204 +1 +removed/);
    expect((await run('--limit', '1')).stderr).toContain('there are more');
  });

  test('records the switches before and after a change, and their reason', async () => {
    const path = `/admin/projects/${project}/switches`;
    const switches = [{ eventType: 'spam', action: 'reject', reason: 'it floods' }];
    await product.admin('PUT', path, switches);
    await product.admin('PUT', path, []);

    const [lifted, on] = await eventually(
      async () => (await ask(`?project=${project}&limit=2`)).audit,
      (audit) =>
        audit.every(({ route, status }) => route === '/admin/projects/:id/switches' && status === 200),
    );
    const off = { switches: [expect.objectContaining(switches[0])] };
    expect(on).toMatchObject({ method: 'PUT', target: project, body: switches, after: off });
    expect(lifted).toMatchObject({ body: [], before: off });
  });

  test('contains no token’s secret in the topic, the table, or any other file', async () => {
    const rows = JSON.stringify(await product.sql('SELECT * FROM audit_versions'));
    expect(rows).toContain('Fox studio');
    const { adminToken } = product.credentials;
    for (const token of [secret, adminToken]) expect(rows).not.toContain(token);
    const read = (): Buffer[] =>
      readdirSync(dataDir, { recursive: true, withFileTypes: true })
        .filter((entry) => entry.isFile() && !entry.name.includes('credentials'))
        .map((entry) => readFileSync(join(entry.parentPath, entry.name)));
    // Reads the files again if ClickHouse renames or removes a part during the read.
    const files = await vi.waitFor(read, { timeout: 10_000 });
    // Checks that the search works. The log stores records unchanged, so the search must find this text.
    expect(files.some((bytes) => bytes.includes('Fox studio'))).toBe(true);
    for (const token of [secret, adminToken]) {
      expect(files.some((bytes) => bytes.includes(token))).toBe(false);
    }
  });
});

function sum(records: readonly AuditRecord[]): number {
  return records.reduce((total, { count }) => total + count, 0);
}
