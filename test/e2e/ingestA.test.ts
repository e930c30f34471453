/** Tests POST /v1/ingest/events in revision A. Checks each rule of the contract for the fields of requests and responses. */
import { isUuidV7, millisOf } from '@questlog/schemas/uuid';
import { beforeAll, describe, expect, test } from 'vitest';
import { anEvent, anUnknownId, events, type TestProject } from './builders.ts';
import { sharedProduct } from './sharedProduct.ts';

const shared = sharedProduct();
let game: TestProject;

beforeAll(async () => {
  game = await shared.aProject({ revision: 'A' });
});

const eventTypes = [
  ...['player_action', 'state_change', 'checkpoint', 'error', 'performance', 'network'],
  '',
  '  ',
  'a\u0000b',
  '"\\',
  '\u0001\u001f\u007f\n\t',
  'Ünïcødé 任务 🗡️\u200d\u2028\uffff',
  'x'.repeat(100_000),
];

describe.concurrent('the answer in revision A', () => {
  test('is a 201 with an array of one created event for a single object', async () => {
    const answer = await game.post(
      anEvent({ sessionId: game.sessionId, eventType: 'player_action', payload: { key: 'W' } }),
    );

    expect(answer.status).toBe(201);
    expect(answer.headers.get('content-type')).toMatch(/^application\/json/);
    expect(answer.headers.get('idempotency-replayed')).toBeNull();
    expect(answer.json()).toEqual([
      {
        id: expect.stringMatching(/^[0-9a-f-]{36}$/),
        sessionId: game.sessionId,
        buildId: null,
        eventType: 'player_action',
        occurredAt: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
        payload: { key: 'W' },
        reportIds: [],
        overQuota: false,
      },
    ]);
  });

  test('contains the elements of a batch in their order, each with a unique id', async () => {
    const answer = await game.post(events(50, { sessionId: game.sessionId }));

    const created: { id: string; payload: { n: number } }[] = answer.json();
    expect(created.map(({ payload }) => payload.n)).toEqual(Array.from({ length: 50 }, (_, n) => n));
    expect(new Set(created.map(({ id }) => id)).size).toBe(50);
  });

  test('contains every field that was sent', async () => {
    const sent = {
      sessionId: game.sessionId,
      buildId: anUnknownId(),
      eventType: 'state_change',
      occurredAt: '2026-11-21T18:30:00.123456Z',
      payload: { health: 3, inventory: ['sword', null, true] },
    };
    const answer = await game.post([sent]);

    expect(answer.status).toBe(201);
    expect(answer.json()).toEqual([{ id: expect.any(String), ...sent, reportIds: [], overQuota: false }]);
  });

  test('contains {} for an omitted payload', async () => {
    const answer = await game.post(anEvent({ sessionId: game.sessionId }));

    expect(answer.json()[0].payload).toEqual({});
  });

  test('does not contain unknown fields', async () => {
    const answer = await game.post({
      ...anEvent({ sessionId: game.sessionId }),
      id: 'mine',
      overQuota: true,
      extra: [1],
    });

    expect(answer.status).toBe(201);
    const [created] = answer.json();
    expect(created).toMatchObject({ overQuota: false });
    expect(created.id).not.toBe('mine');
    expect(created).not.toHaveProperty('extra');
  });

  test('contains any string as the event type, unchanged', async () => {
    const sessionId = await game.session();
    const answer = await game.post(eventTypes.map((eventType) => anEvent({ sessionId, eventType })));
    const typesOf = (created: { eventType: string }[]): string[] => created.map(({ eventType }) => eventType);

    expect(answer.status).toBe(201);
    expect(typesOf(answer.json())).toEqual(eventTypes);
    const page = await game.get(`/v1/sessions/${sessionId}/events`);
    expect(typesOf(page.json().events)).toEqual(eventTypes);
    const rows = await shared.product.sql<{ hex: string }>(
      `SELECT lower(hex(event_type)) AS hex FROM events WHERE session_id = '${sessionId}' ORDER BY log_index`,
    );
    expect(rows.map(({ hex }) => hex)).toEqual(eventTypes.map((text) => Buffer.from(text).toString('hex')));
  });
});

describe.concurrent('revision A', () => {
  test.each([
    ['omitted', {}],
    ['null', { sessionId: null }],
  ])('answers 400 for a sessionId that is %s, and stores nothing', async (_, fields) => {
    const eventType = `without-session-${anUnknownId()}`;
    const answer = await game.post(anEvent({ eventType, ...fields }));

    expect(answer.status).toBe(400);
    expect(answer.json().errors).toEqual([
      { index: 0, pointer: '/sessionId', code: 'field_required', detail: expect.any(String) },
    ]);
    expect(await countOf(eventType)).toBe(0);
  });

  test('answers 404 for a session that does not exist, and stores nothing', async () => {
    const eventType = `unknown-session-${anUnknownId()}`;
    const answer = await game.post(anEvent({ eventType, sessionId: anUnknownId() }));

    expect(answer.status).toBe(404);
    expect(answer.json()).toMatchObject({
      code: 'unknown_session',
      errors: [{ index: 0, pointer: '/sessionId', code: 'unknown_session' }],
    });
    expect(await countOf(eventType)).toBe(0);
  });
});

describe.concurrent('a stored event', () => {
  test('has a UUIDv7 with the milliseconds of receivedAt', async () => {
    const before = Date.now();
    const [created] = (await game.post(anEvent({ sessionId: game.sessionId }))).json();
    const after = Date.now();

    expect(isUuidV7(created.id)).toBe(true);
    expect(millisOf(created.id)).toBeGreaterThanOrEqual(before);
    expect(millisOf(created.id)).toBeLessThanOrEqual(after);
    await game.get(`/v1/events/${created.id}`);
    const rows = await shared.product.sql(
      `SELECT toUnixTimestamp64Milli(received_at) AS received FROM events WHERE id = '${created.id}'`,
    );
    expect(rows).toEqual([{ received: millisOf(created.id) }]);
  });

  test('is returned by GET /v1/events/{id} right after its 201, exactly as it was created', async () => {
    const posted = await game.post(
      anEvent({ sessionId: game.sessionId, buildId: anUnknownId(), payload: { a: 1 } }),
    );
    const [created] = posted.json();
    const read = await game.get(`/v1/events/${created.id}`);

    expect(read.status).toBe(200);
    expect(read.headers.get('content-type')).toMatch(/^application\/json/);
    expect(`[${read.text()}]`).toBe(posted.text());
    expect((await game.get(`/v1/events/${created.id.toUpperCase()}`)).text()).toBe(read.text());
  });

  test('is in ClickHouse with its tenant, project, session, build, and log index', async () => {
    const buildId = anUnknownId();
    const created = (
      await game.post([
        anEvent({ sessionId: game.sessionId, buildId }),
        anEvent({ sessionId: game.sessionId }),
      ])
    ).json();
    await game.get(`/v1/events/${created[1].id}`);
    const rows = await shared.product.sql(
      `SELECT id, tenant_id, project_id, session_id, build_id, event_type, over_quota, log_index
       FROM events WHERE id IN ('${created[0].id}', '${created[1].id}') ORDER BY log_index`,
    );

    const common = {
      tenant_id: game.tenantId,
      project_id: game.projectId,
      session_id: game.sessionId,
      event_type: 'checkpoint',
      over_quota: false,
    };
    expect(rows).toEqual([
      { ...common, id: created[0].id, build_id: buildId, log_index: 0 },
      { ...common, id: created[1].id, build_id: null, log_index: 1 },
    ]);
  });
});

/** Waits until ClickHouse has all acknowledged events. @returns the number of events of the type */
async function countOf(eventType: string): Promise<number> {
  await game.get('/v1/quota');
  const [row] = await shared.product.sql<{ count: number }>(
    `SELECT count() AS count FROM events WHERE event_type = '${eventType}'`,
  );
  return row?.count ?? -1;
}
