/**
 * Tests settings that differ from the product of the run: the maximum number of links of a report, the revision, the allowed
 * hosts, and the address of another deployment.
 */
import { once } from 'node:events';
import { get, type IncomingMessage } from 'node:http';
import { expect, test } from 'vitest';
import { isSame, joinAndLinks } from '../faults/joinedLinks.ts';
import { anEvent, events, eventually, type ListedLink } from './builders.ts';
import { ownProduct } from './sharedProduct.ts';

const shared = ownProduct({
  env: {
    QUESTLOG_REPORT_LINKS: '4',
    QUESTLOG_REVISION: 'B',
    QUESTLOG_ADMIN_ALLOWED_HOSTS: 'ops.internal, Ops.Example:443',
    // Nothing listens here.
    QUESTLOG_URL: 'http://127.0.0.1:9/',
  },
});

test('links the first events before and after the report up to the maximum, and reports more events immediately', async () => {
  const game = await shared.aProject();
  const { sessionId } = game;
  const early: { id: string }[] = (await game.post(events(3, { sessionId }))).json();
  const { id, truncated } = (await game.report({ sessionId })).json();
  expect(truncated).toBe(false);
  const behind: { id: string }[] = (await game.post(events(3, { sessionId }))).json();
  const first = [...early, ...behind].slice(0, 4).map((event) => event.id);

  const report = async () => (await game.get(`/v1/reports/${id}`)).json();
  const idsOf = ({ links }: { links: ListedLink[] }) => links.map(({ eventId }) => eventId);
  const atOnce = await eventually(report, ({ links }) => links.length >= 4);
  expect([idsOf(atOnce), atOnce.truncated]).toEqual([first.toSorted(), true]);
  const page = (await game.get(`/v1/reports/${id}/events`)).json();
  expect(page.events.map((event: { id: string }) => event.id)).toEqual(first);

  const made = () =>
    shared.product.sql<{ id: string }>(
      `SELECT toString(event_id) AS id FROM report_link_versions FINAL
       WHERE report_id = '${id}' AND state = 'linked' ORDER BY id`,
    );
  const linked = await eventually(made, (rows) => rows.length >= 4, 20_000);
  expect(linked.map((row) => row.id)).toEqual(first.toSorted());
  // Sends an event after the maximum is reached. The second report names the event, so its link shows when the linker has
  // processed the event.
  const [last] = (await game.post(events(1, { sessionId }))).json();
  await game.report({ eventIds: [last.id] });
  await eventually(
    () =>
      shared.product.sql(
        `SELECT 1 FROM report_link_versions FINAL WHERE event_id = '${last.id}' AND state = 'linked'`,
      ),
    (rows) => rows.length === 1,
    20_000,
  );
  expect(await made()).toEqual(linked);
  // Compares the links with a brute-force join, as the audits of the fault campaign do.
  const joined = await joinAndLinks(shared.product, `project_id = '${game.projectId}'`);
  expect(joined).toSatisfy(isSame);
});

test('links at most 50 concurrent reports to the events of one session or to one event; later reports say that links are missing', async () => {
  const game = await shared.aProject();
  const { sessionId } = game;
  const [named] = (await game.post([anEvent({ sessionId: await game.session() })])).json();
  // Files the reports concurrently, so that each report must also count reports that are not projected yet.
  const filed = await Promise.all(
    Array.from({ length: 60 }, async () => (await game.report({ sessionId, eventIds: [named.id] })).json()),
  );
  expect(filed.filter(({ eventIdsTruncated }) => eventIdsTruncated)).toHaveLength(10);

  const [event] = (await game.post([anEvent({ sessionId })])).json();
  expect(event.reportIds).toHaveLength(50);
  const reportsOf = async (id: string) => (await game.get(`/v1/events/${id}`)).json().reportIds;
  expect(await reportsOf(named.id)).toHaveLength(50);
  const [without = ''] = filed.map(({ id }) => id).filter((id) => !event.reportIds.includes(id));
  const report = async () => (await game.get(`/v1/reports/${without}`)).json();
  expect(await eventually(report, ({ truncated }) => truncated)).toMatchObject({ state: 'filed', sessionId });
  // Checks that the linker creates as many links as the response contained.
  const made = () =>
    shared.product.sql<{ links: string }>(
      `SELECT count() AS links FROM report_link_versions FINAL
       WHERE event_id = '${event.id}' AND state = 'linked'`,
    );
  await eventually(made, ([row]) => Number(row?.links) === 50, 20_000);
  const refused = await game.report({ eventIds: [named.id] });
  expect([refused.status, refused.json().code]).toEqual([429, 'rate_limited']);
});

test('one process sends a test event to itself, although QUESTLOG_URL names another deployment', async () => {
  const { projectId } = await shared.aProject();
  const answer = await shared.product.admin('POST', `/admin/projects/${projectId}/test-event`);
  expect(answer.status, answer.text()).toBe(201);
});

test('a project without a revision has the revision of the deployment', async () => {
  const inB = await shared.aProject({ revision: null });
  const inA = await shared.aProject({ revision: 'A', tenantId: inB.tenantId });
  expect((await inB.post(anEvent())).status).toBe(201);
  expect((await inA.post(anEvent())).status).toBe(400);
});

test.each([
  ['ops.internal', 200],
  ['OPS.internal:1', 200],
  ['ops.example', 200],
  ['internal', 421],
])('answers an admin request with the Host header %s with %i', async (host, status) => {
  const { adminUrl, adminToken } = shared.product.credentials;
  const headers = { Host: host, Authorization: `Bearer ${adminToken}` };
  const sent = get(`${adminUrl}/admin/tenants`, { headers });
  const [answer] = (await once(sent, 'response')) as [IncomingMessage];
  answer.resume();
  expect(answer.statusCode).toBe(status);
});
