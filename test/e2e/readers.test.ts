/** Tests ClickHouse accounts that read only the rows of one tenant or project, from their creation to their removal. */
import { expect, test } from 'vitest';
import { anEvent, anUnknownId, eventually } from './builders.ts';
import { sharedProduct } from './sharedProduct.ts';

const shared = sharedProduct();

interface Account {
  readonly id: string;
  readonly url: string;
  readonly database: string;
  readonly username: string;
  readonly password: string;
}

async function ask(account: Account, query: string): Promise<string> {
  const { url, database, username, password } = account;
  const headers = { 'X-ClickHouse-User': username, 'X-ClickHouse-Key': password };
  return await (await fetch(`${url}/?${new URLSearchParams({ query, database })}`, { headers })).text();
}

async function post(path: string, body?: object): Promise<Account> {
  const answer = await shared.product.admin('POST', path, body);
  expect(answer.status, answer.text()).toBe(201);
  return answer.json();
}

test('an account reads the rows of its tenant until it is dropped, and a new password replaces the old one', async () => {
  const [own, other] = [await shared.aProject({ revision: 'B' }), await shared.aProject({ revision: 'B' })];
  const second = await shared.aProject({ revision: 'B', tenantId: own.tenantId });
  for (const project of [own, second, other]) expect((await project.post(anEvent())).status).toBe(201);

  const ofTenant = await post('/admin/readers', { tenantId: own.tenantId, name: 'Grafana' });
  const ofProject = await post('/admin/readers', { tenantId: own.tenantId, projectId: own.projectId });
  const projects = (account: Account) =>
    ask(account, 'SELECT toString(project_id) AS id FROM game_events GROUP BY id ORDER BY id');
  const both = [own.projectId, second.projectId]
    .toSorted()
    .map((id) => `${id}\n`)
    .join('');
  await eventually(
    () => projects(ofTenant),
    (text) => text === both,
  );
  expect(await projects(ofProject)).toBe(`${own.projectId}\n`);

  const logged = shared.product
    .output()
    .split('\n')
    .flatMap((line) => (line.includes('"studio_statement"') ? [JSON.parse(line)] : []));
  expect(logged).toContainEqual(
    expect.objectContaining({
      ...{ service: 'embedded-clickhouse', level: 'info', reader: ofTenant.username, code: 0 },
      ...{ tenantId: own.tenantId, ms: expect.any(Number), rows: 2, bytes: 74 },
      statement: expect.stringMatching(/^SELECT toString\(project_id\) AS id FROM game_events/),
    }),
  );

  const rotated = await post(`/admin/readers/${ofTenant.id}/rotate`);
  expect(await ask(ofTenant, 'SELECT 1')).toMatch(/AUTHENTICATION_FAILED/);
  expect(await ask(rotated, 'SELECT 1')).toBe('1\n');

  const listed = (await shared.product.admin('GET', '/admin/readers')).text();
  expect(JSON.parse(listed)).toContainEqual(
    expect.objectContaining({
      id: ofTenant.id,
      username: ofTenant.username,
      name: 'Grafana',
      projectId: null,
    }),
  );
  for (const { id } of [ofTenant, ofProject])
    expect((await shared.product.admin('DELETE', `/admin/readers/${id}`)).status).toBe(204);
  expect(await ask(rotated, 'SELECT 1')).toMatch(/AUTHENTICATION_FAILED/);
  expect((await shared.product.admin('DELETE', `/admin/readers/${ofTenant.id}`)).status).toBe(404);

  const audit = await eventually(
    async () => (await shared.product.admin('GET', `/admin/audit?tenant=${own.tenantId}`)).text(),
    (text) => text.includes('/admin/readers/:id/rotate') && text.includes('DELETE'),
  );
  for (const secret of [ofTenant.password, rotated.password]) expect(listed + audit).not.toContain(secret);
});

test('an account needs a tenant, a project of this tenant, and an expiry in the future', async () => {
  const [{ tenantId }, { projectId }] = [await shared.aProject(), await shared.aProject()];
  const create = (body: object) => shared.product.admin('POST', '/admin/readers', body);
  expect((await create({ tenantId: anUnknownId() })).status).toBe(404);
  expect((await create({ tenantId, projectId: anUnknownId() })).status).toBe(404);
  expect((await create({ tenantId, projectId })).json().errors[0].pointer).toBe('/projectId');
  expect((await create({ tenantId, expiresAt: '2020-01-01' })).json().errors[0].pointer).toBe('/expiresAt');
});
