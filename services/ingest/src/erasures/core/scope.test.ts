import { randomUUID } from 'node:crypto';
import { expect, test } from 'vitest';
import { mostOf, NOTHING_FOUND, scopesOf, sumOf } from './scope.ts';

const [TENANT, PROJECT, SESSION] = [randomUUID(), randomUUID(), randomUUID()];
const OF = { tenantId: TENANT, projectId: PROJECT, requestedAt: 7 };

test('a project goes up to the request, a tenant whatever the project', () => {
  const [project, ...more] = scopesOf({ ...OF, sessions: null });
  expect(more).toEqual([]);
  expect(project?.events).toBe(
    `tenant_id = '${TENANT}' AND project_id = '${PROJECT}' AND received_at < fromUnixTimestamp64Milli(7)`,
  );
  expect(scopesOf({ ...OF, projectId: null, sessions: null })[0]?.sessions).toBe(
    `tenant_id = '${TENANT}' AND registered_at < fromUnixTimestamp64Milli(7)`,
  );
});

test('every condition names the tenant, and of sessions the project', () => {
  const sessions = [{ projectId: PROJECT, ids: [SESSION] }];
  for (const scope of scopesOf({ ...OF, projectId: null, sessions }).flatMap(Object.values))
    expect(scope.startsWith(`tenant_id = '${TENANT}' AND project_id = '${PROJECT}' AND `), scope).toBe(true);
});

test('many sessions are several statements that ClickHouse takes, and none is left out', () => {
  const ids = Array.from({ length: 2_500 }, () => randomUUID());
  const scopes = scopesOf({ ...OF, sessions: [{ projectId: PROJECT, ids }] });
  for (const scope of scopes.flatMap(Object.values)) expect(scope.length).toBeLessThan(250 * 1024);
  const text = scopes.map(({ events }) => events).join();
  expect(ids.filter((id) => !text.includes(id))).toEqual([]);
});

test('what is no UUID never stands in a statement', () => {
  const hostile = "' OR 1 = 1 --";
  expect(() => scopesOf({ ...OF, tenantId: hostile, sessions: null })).toThrow('no UUID');
  const sessions = [{ projectId: PROJECT, ids: [hostile] }];
  expect(() => scopesOf({ ...OF, sessions })).toThrow('no UUID');
});

test('looks add up, and one that is done again counts once', () => {
  const look = { ...NOTHING_FOUND, events: 3, links: 1 };
  expect(sumOf(look, { ...NOTHING_FOUND, events: 2 })).toEqual({ ...look, events: 5 });
  expect(mostOf(look, { ...NOTHING_FOUND, events: 2, reports: 4 })).toEqual({ ...look, reports: 4 });
});
