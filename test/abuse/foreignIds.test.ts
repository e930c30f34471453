/**
 * Every path of the public document that takes an id, asked for every kind of thing of another tenant, and every kind of
 * it named in a body: never its data, and never its existence.
 */
import { randomUUID } from 'node:crypto';
import { beforeAll, expect, test } from 'vitest';
import { aKey, anEvent, type TestProject } from '../e2e/builders.ts';
import { ownProduct } from '../e2e/sharedProduct.ts';
import { tell } from './figures.ts';

const SECRET = `only-the-owner-${randomUUID()}`;

interface Operation {
  readonly method: string;
  readonly path: string;
}

const shared = ownProduct();
let [owner, thief]: [TestProject, TestProject] = [{} as TestProject, {} as TestProject];
/** Of the owner, by kind; each of them is there. */
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
  // Nothing is hidden because it is not there yet.
  for (const path of ['events', 'reports', 'sessions', 'uploads']) {
    expect((await owner.get(`/v1/${path}/${ids[path.slice(0, -1)]}`)).text()).toContain(SECRET);
  }
});

test('no path answers a thing of another tenant, whatever kind of id it is given', async () => {
  expect(operations.length).toBeGreaterThanOrEqual(8);
  let tried = 0;
  for (const { method, path } of operations) {
    for (const [kind, id] of Object.entries(ids)) {
      const answer = await thief.request(method, path.replace(/\{\w+\}/, encodeURIComponent(id)));
      const where = `${method} ${path} with the ${kind}’s id: ${answer.status} ${answer.text()}`;
      tried++;
      // A player has the sessions that the project registered, which are none.
      if (path.includes('/players/')) expect(answer.json(), where).toMatchObject({ sessions: [] });
      else expect([403, 404, 400], where).toContain(answer.status);
      expect(answer.text().replaceAll(id, ''), where).not.toContain(SECRET);
    }
  }
  tell('Another tenant’s ids in paths', {
    tried: `${tried} combinations of path and kind of id`,
    held: '403, 404, or an empty list',
  });
});

test('an id of another tenant in a path is answered as one that nobody has', async () => {
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

test('an operator’s path with a project and a thing of another one is answered as if nobody had it', async () => {
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

test('an id of another tenant in a body or a query is none', async () => {
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
  // It may name what it likes, and is never shown what it named.
  const named = await thief.report({ id: report, report: { title: 'mine' }, eventIds: [event] });
  expect(named.status).toBe(201);
  const own = await thief.get(`/v1/reports/${report}/events`);
  expect(own.json()).toMatchObject({ events: [] });
  expect((await owner.get(`/v1/reports/${report}`)).json()).toMatchObject({ report: { title: SECRET } });
});
