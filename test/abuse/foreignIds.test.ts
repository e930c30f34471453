/**
 * Tests that no path with an id returns the data of another tenant or reveals that the data exists. Each path of the public
 * OpenAPI document is requested with each kind of id, and each kind of id is sent in a body.
 */
import { randomUUID } from 'node:crypto';
import { beforeAll, expect, test } from 'vitest';
import { aKey, anEvent, type TestProject } from '../e2e/builders.ts';
import { ownProduct } from '../e2e/sharedProduct.ts';
import { recordFigure } from './figures.ts';

const SECRET = `only-the-owner-${randomUUID()}`;

interface Operation {
  readonly method: string;
  readonly path: string;
}

const shared = ownProduct();
let [owner, thief]: [TestProject, TestProject] = [{} as TestProject, {} as TestProject];
/** Ids of the owner's stored entities, by kind. */
let ids: Record<string, string> = {};
let operations: Operation[] = [];

beforeAll(async () => {
  owner = await shared.aProject({ revision: 'A' });
  thief = await shared.aProject({ revision: 'A' });
  const build = { version: SECRET, platform: 'Web' };
  const sessionId = await owner.session({ build, player: { externalId: SECRET } });
  const [event] = (await owner.post([anEvent({ sessionId, payload: { text: SECRET } })])).json();
  const report = (await owner.report({ sessionId, report: { title: SECRET } })).json();
  const asked = {
    attachmentType: 'other',
    fileName: 'a.txt',
    mimeType: 'text/plain',
    sizeBytes: SECRET.length,
  };
  const upload = (await owner.request('POST', '/v1/ingest/uploads', { body: asked })).json();
  const put = { method: 'PUT', body: SECRET, headers: upload.requiredHeaders };
  expect((await fetch(upload.uploadUrl, put)).status).toBe(200);
  ids = {
    ...{ event: event.id, report: report.id, session: sessionId, upload: upload.uploadId },
    ...{ build: event.buildId, tenant: owner.tenantId, project: owner.projectId, player: SECRET },
  };
  const document = await shared.product.request('GET', '/openapi.json');
  operations = Object.entries<object>(document.json().paths).flatMap(([path, of]) =>
    Object.keys(of).flatMap((method) => (path.includes('{') ? [{ method: method.toUpperCase(), path }] : [])),
  );
  // The owner can read each entity, so a 404 for another tenant does not mean that the entity is missing.
  for (const path of ['events', 'reports', 'sessions', 'uploads']) {
    expect((await owner.get(`/v1/${path}/${ids[path.slice(0, -1)]}`)).text()).toContain(SECRET);
  }
});

test('returns no data of another tenant for any path and any kind of id', async () => {
  expect(operations.length).toBeGreaterThanOrEqual(8);
  let tried = 0;
  for (const { method, path } of operations) {
    for (const [kind, id] of Object.entries(ids)) {
      const answer = await thief.request(method, path.replace(/\{\w+\}/, encodeURIComponent(id)));
      const where = `${method} ${path} with the ${kind}’s id: ${answer.status} ${answer.text()}`;
      tried++;
      // The project registered no sessions of this player, so the list is empty.
      if (path.includes('/players/')) expect(answer.json(), where).toMatchObject({ sessions: [] });
      else expect([403, 404, 400], where).toContain(answer.status);
      expect(answer.text().replaceAll(id, ''), where).not.toContain(SECRET);
    }
  }
  recordFigure('Another tenant’s ids in paths', {
    tried: `${tried} combinations of path and kind of id`,
    held: '403, 404, or an empty list',
  });
});

test('answers an id of another tenant like an unknown id', async () => {
  for (const { method, path } of operations.filter(({ path }) => path.includes('{id}'))) {
    const kind = /^\/v1\/(\w+)s\//.exec(path)?.[1] ?? '';
    const asked = async (id: string) => {
      const answer = await thief.request(method, path.replace('{id}', id));
      const text = answer.text().replaceAll(id, 'ID');
      return `${answer.status} ${text.replace(/urn:questlog:request:[\w-]+/, 'REQUEST')}`;
    };
    expect(await asked(ids[kind] ?? ''), `${method} ${path}`).toBe(await asked(aKey()));
  }
});

test('answers an operator’s path with a project and an entity of another project with 404', async () => {
  const document = (await shared.product.admin('GET', '/openapi.json')).json();
  const twoIds = Object.keys(document.paths).filter((path) => path.split('{').length > 2);
  expect(twoIds.toSorted()).toEqual([
    '/admin/projects/{id}/reports/{reportId}',
    '/admin/uploads/{projectId}/{uploadId}',
  ]);
  const asked = async (project: TestProject) => [
    (await shared.product.admin('GET', `/admin/uploads/${project.projectId}/${ids['upload']}`)).status,
    (await shared.product.admin('DELETE', `/admin/projects/${project.projectId}/reports/${ids['report']}`))
      .status,
  ];
  expect(await asked(thief)).toEqual([404, 404]);
  expect((await owner.get(`/v1/reports/${ids['report']}`)).json()).toMatchObject({ state: 'filed' });
});

test('treats an id of another tenant in a body or a query as unknown', async () => {
  const { session = '', event = '', report = '', upload = '' } = ids;
  const attachment = { uploadId: upload, attachmentType: 'other', fileName: 'a.txt' };
  const answers = [
    await thief.post([anEvent({ sessionId: session })]),
    await thief.report({ sessionId: session, report: { title: 'mine' } }),
    await thief.report({ report: { title: 'mine' }, attachments: [attachment] }),
    await thief.request('GET', `/v1/events?sessionId=${session}`),
    await thief.request('GET', `/v1/reports?sessionId=${session}`),
    await thief.request('GET', '/v1/builds'),
  ];
  expect(answers.slice(0, 3).map(({ status }) => status)).toEqual([404, 404, 404]);
  for (const answer of answers) expect(answer.text()).not.toContain(SECRET);
  // A report can name any event id, but it shows no event of another tenant.
  const named = await thief.report({ id: report, report: { title: 'mine' }, eventIds: [event] });
  expect(named.status).toBe(201);
  const own = await thief.get(`/v1/reports/${report}/events`);
  expect(own.json()).toMatchObject({ events: [] });
  expect((await owner.get(`/v1/reports/${report}`)).json()).toMatchObject({ report: { title: SECRET } });
});
