/**
 * Tests POST /admin/links/retry. With it, an operator makes Questlog search again for events that a report names and that were
 * not found.
 */
import { beforeAll, describe, expect, test } from 'vitest';
import { anUnknownId, type TestProject } from './builders.ts';
import { sharedProduct } from './sharedProduct.ts';

const shared = sharedProduct();
let game: TestProject;

beforeAll(async () => {
  game = await shared.aProject({ revision: 'B' });
});

describe.concurrent('POST /admin/links/retry', () => {
  const retry = (body: object) => shared.product.admin('POST', '/admin/links/retry', body);

  test('looks up the unresolved reports of a filter again, except retracted reports', async () => {
    const own = await shared.aProject({ revision: 'B' });
    const ids: string[] = [];
    for (let i = 0; i < 3; i++) {
      const eventIds = [anUnknownId(), anUnknownId()];
      const { id } = (await own.report({ eventIds })).json();
      await leaveUnresolved(own, id, eventIds);
      ids.push(id);
    }
    const [first, second, retracted] = ids;
    await own.request('DELETE', `/v1/reports/${retracted}`);
    await own.get(`/v1/reports/${retracted}`);

    const report = (await own.get(`/v1/reports/${first}`)).json();
    expect(report.links.map(({ state }: { state: string }) => state)).toEqual(['unresolved', 'unresolved']);
    const counted = async (filter: object) => (await retry(filter)).json();
    expect(await counted({ projectId: own.projectId.toUpperCase() })).toEqual({ reports: 2, links: 4 });
    expect(await counted({ tenantId: own.tenantId, reportId: second })).toEqual({ reports: 1, links: 2 });
    expect(await counted({ projectId: game.projectId, reportId: second })).toEqual({ reports: 0, links: 0 });
    expect(await counted({ reportId: retracted })).toEqual({ reports: 0, links: 0 });
    expect((await own.get(`/v1/reports/${first}`)).json()).toMatchObject({ state: 'filed' });
  });

  test('finds nothing without unresolved links', async () => {
    await game.report({ eventIds: [anUnknownId()] });
    const answer = await retry({ projectId: game.projectId });

    expect([answer.status, answer.json()]).toEqual([200, { reports: 0, links: 0 }]);
  });

  test('is rejected without the admin token, and for a filter with an invalid id', async () => {
    const { adminUrl } = shared.product.credentials;
    const answer = await fetch(`${adminUrl}/admin/links/retry`, { method: 'POST', body: '{}' });

    expect(answer.status).toBe(401);
    expect((await retry({ reportId: 'x' })).status).toBe(400);
  });
});

/**
 * Inserts links in the state unresolved. The linker would write them only after the grace period of the report, which is 15
 * minutes.
 */
async function leaveUnresolved(
  of: TestProject,
  reportId: string,
  eventIds: readonly string[],
): Promise<void> {
  const { url, username, password, database } = shared.product.credentials.clickhouse;
  const none = "'00000000-0000-0000-0000-000000000000'";
  const rows = eventIds.map(
    (id) =>
      `('${of.tenantId}', '${of.projectId}', '${reportId}', '${id}', 'unresolved', 'named', 1, now64(3), ${none}, 0, 0)`,
  );
  const answer = await fetch(`${url}/?database=${database}`, {
    method: 'POST',
    headers: { Authorization: `Basic ${btoa(`${username}:${password}`)}` },
    body: `INSERT INTO report_link_versions VALUES ${rows.join(', ')}`,
  });
  if (!answer.ok) throw new Error(await answer.text());
}
