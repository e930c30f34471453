import { randomUUID } from 'node:crypto';
import { expect, test } from 'vitest';
import { earlyCounts, maxCounts, scopesOf, sumCounts, ZERO_COUNTS } from './scope.ts';

const [TENANT, PROJECT, SESSION] = [randomUUID(), randomUUID(), randomUUID()];
const OF = { tenantId: TENANT, projectId: PROJECT, requestedAt: 7 };

test('a project scope ends at the time of the request, and a tenant scope includes all projects', () => {
  const [project, ...more] = scopesOf({ ...OF, sessions: null });
  expect(more).toEqual([]);
  expect(project?.events).toBe(
    `tenant_id = '${TENANT}' AND project_id = '${PROJECT}' AND received_at < fromUnixTimestamp64Milli(7)`,
  );
  expect(scopesOf({ ...OF, projectId: null, sessions: null })[0]?.sessions).toBe(
    `tenant_id = '${TENANT}' AND registered_at < fromUnixTimestamp64Milli(7)`,
  );
});

test('every condition contains the tenant, and conditions on sessions contain the project', () => {
  const sessions = [{ projectId: PROJECT, ids: [SESSION] }];
  for (const scope of scopesOf({ ...OF, projectId: null, sessions }).flatMap(Object.values))
    expect(scope.startsWith(`tenant_id = '${TENANT}' AND project_id = '${PROJECT}' AND `), scope).toBe(true);
});

test('splits many sessions into statements that ClickHouse accepts', () => {
  const ids = Array.from({ length: 2_500 }, () => randomUUID());
  const scopes = scopesOf({ ...OF, sessions: [{ projectId: PROJECT, ids }] });
  for (const scope of scopes.flatMap(Object.values)) expect(scope.length).toBeLessThan(250 * 1024);
  const text = scopes.map(({ events }) => events).join();
  expect(ids.filter((id) => !text.includes(id))).toEqual([]);
  // There must be no further scope without sessions, because ClickHouse would reject its statements at every retry.
  expect(scopesOf({ ...OF, sessions: [{ projectId: PROJECT, ids: ids.slice(0, 400) }] })).toHaveLength(1);
});

test('deletes links with their reports and with their events, and links of a whole project also by their own time', () => {
  const owner = `tenant_id = '${TENANT}' AND project_id = '${PROJECT}'`;
  const [project] = scopesOf({ ...OF, sessions: null });
  const ofRows = ({ report_versions: reports = '', events = '' } = {}) =>
    `report_id IN (SELECT id FROM report_versions WHERE ${reports}) OR ` +
    `event_id IN (SELECT id FROM events WHERE ${events} AND id IN (SELECT event_id FROM report_link_versions WHERE ${owner}))`;
  expect(project?.report_link_versions).toBe(
    `${owner} AND (changed_at < fromUnixTimestamp64Milli(7) OR ${ofRows(project)})`,
  );
  const [sessions] = scopesOf({ ...OF, sessions: [{ projectId: PROJECT, ids: [SESSION, TENANT] }] });
  expect(sessions?.report_link_versions).toBe(`${owner} AND (${ofRows(sessions)})`);
  expect(sessions?.events).toBe(`${owner} AND session_id IN ('${SESSION}', '${TENANT}')`);
});

test('counts only the rows of the early tables for the first step', () => {
  const found = { ...ZERO_COUNTS, events: 1, links: 2, reports: 3, sessions: 4, linkedEvents: 5 };
  expect(earlyCounts(found)).toEqual({ ...ZERO_COUNTS, links: 2, sessions: 4, linkedEvents: 5, log: 4 });
});

test('rejects an id that is not a UUID', () => {
  const hostile = "' OR 1 = 1 --";
  expect(() => scopesOf({ ...OF, tenantId: hostile, sessions: null })).toThrow('is not a UUID');
  const sessions = [{ projectId: PROJECT, ids: [hostile] }];
  expect(() => scopesOf({ ...OF, sessions })).toThrow('is not a UUID');
});

test('adds the counts of steps, and counts a repeated step once', () => {
  const look = { ...ZERO_COUNTS, events: 3, links: 1 };
  expect(sumCounts(look, { ...ZERO_COUNTS, events: 2 })).toEqual({ ...look, events: 5 });
  expect(maxCounts(look, { ...ZERO_COUNTS, events: 2, reports: 4 })).toEqual({ ...look, reports: 4 });
});
