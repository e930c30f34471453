/**
 * Tests POST /v1/ingest/events in revision B. Checks its four differences from revision A on a deployment that has both
 * revisions.
 */
import { beforeAll, describe, expect, test } from 'vitest';
import { anEvent, anUnknownId, events, type TestProject } from './builders.ts';
import { sharedProduct } from './sharedProduct.ts';

const shared = sharedProduct();
let game: TestProject;
let gameA: TestProject;

beforeAll(async () => {
  game = await shared.aProject({ revision: 'B' });
  gameA = await shared.aProject({ revision: 'A', tenantId: game.tenantId });
});

describe.concurrent('revision B', () => {
  test('stores an event without a session and answers its sessionId as null', async () => {
    const answer = await game.post(anEvent({ payload: { fps: 12 } }));

    expect(answer.status).toBe(201);
    expect(answer.json()).toEqual([
      {
        id: expect.any(String),
        sessionId: null,
        buildId: null,
        eventType: 'checkpoint',
        occurredAt: expect.any(String),
        payload: { fps: 12 },
        reportIds: [],
      },
    ]);
    const read = await game.get(`/v1/events/${answer.json()[0].id}`);
    expect(`[${read.text()}]`).toBe(answer.text());
  });

  test('treats a sessionId of null as an omitted sessionId', async () => {
    const answer = await game.post(anEvent({ sessionId: null }));

    expect(answer.status).toBe(201);
    expect(answer.json()[0].sessionId).toBeNull();
  });

  test('stores an event with its session if one is given', async () => {
    const answer = await game.post(anEvent({ sessionId: game.sessionId }));

    expect(answer.status).toBe(201);
    expect(answer.json()[0].sessionId).toBe(game.sessionId);
  });

  test('answers 404 for a session that does not exist', async () => {
    const answer = await game.post([anEvent(), anEvent({ sessionId: anUnknownId() })]);

    expect(answer.status).toBe(404);
    expect(answer.json()).toMatchObject({
      code: 'unknown_session',
      errors: [{ index: 1, pointer: '/sessionId', code: 'unknown_session' }],
    });
  });

  test('answers 400 for a sessionId that is not a UUID', async () => {
    const answer = await game.post(anEvent({ sessionId: 'level-3' }));

    expect(answer.status).toBe(400);
    expect(answer.json().errors).toMatchObject([{ index: 0, pointer: '/sessionId', code: 'invalid_uuid' }]);
  });

  test('returns no overQuota in any answer, also over quota', async () => {
    const full = await shared.aProject({ revision: 'B', monthlySoftQuota: 0 });
    const posted = await full.post([anEvent({ sessionId: full.sessionId }), anEvent()]);

    expect(posted.status).toBe(201);
    for (const created of posted.json()) expect(created).not.toHaveProperty('overQuota');
    const read = await full.get(`/v1/events/${posted.json()[0].id}`);
    expect(read.json()).not.toHaveProperty('overQuota');
    const page = await full.get(`/v1/sessions/${full.sessionId}/events`);
    expect(page.json().events).toHaveLength(1);
    expect(page.json().events[0]).not.toHaveProperty('overQuota');
  });

  test('accepts 200 events in an array and answers 413 to 201', async () => {
    const most = await game.post(events(200));
    const tooMany = await game.post(events(201));

    expect(most.status).toBe(201);
    expect(most.json()).toHaveLength(200);
    expect(tooMany.status).toBe(413);
    expect(tooMany.json().code).toBe('batch_too_large');
  });
});

describe.concurrent('the revision', () => {
  test('is the project’s if the project has one, independent of the tenant’s other projects', async () => {
    expect((await gameA.post(anEvent())).status).toBe(400);
    const answer = await gameA.post(events(201, { sessionId: gameA.sessionId }));
    expect(answer.status).toBe(201);
    expect(answer.json()[200]).toMatchObject({ overQuota: false });
  });

  test('follows a PATCH of the project, for sent events and for reads', async () => {
    const project = await shared.aProject({ revision: 'A' });
    const [created] = (await project.post(anEvent({ sessionId: project.sessionId }))).json();
    expect(created).toHaveProperty('overQuota');

    await shared.product.admin('PATCH', `/admin/projects/${project.projectId}`, { revision: 'B' });

    expect((await project.post(anEvent())).status).toBe(201);
    expect((await project.get(`/v1/events/${created.id}`)).json()).not.toHaveProperty('overQuota');
  });
});
