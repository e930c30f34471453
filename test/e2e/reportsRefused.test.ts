/** Tests rejected reports. Each problem names its field and its limit, and nothing is stored. */
import { randomUUID } from 'node:crypto';
import { beforeAll, describe, expect, test } from 'vitest';
import { anEvent, anUnknownId, events, type TestProject } from './builders.ts';
import { sharedProduct } from './sharedProduct.ts';
import { openWire } from './wire.ts';

const shared = sharedProduct();
const FILE = { attachmentType: 'other', fileName: 'a.bin' };
let game: TestProject;

beforeAll(async () => {
  game = await shared.aProject({ revision: 'A' });
});

describe.concurrent('rejects a report', () => {
  test('with a list of all problems', async () => {
    const unknown = anUnknownId();
    const answer = await game.report({
      id: 'x',
      sessionId: unknown,
      occurredAt: 'noon',
      events: [
        anEvent({ sessionId: game.sessionId, buildId: 7 }),
        anEvent(),
        anEvent({ sessionId: unknown }),
      ],
      eventIds: ['y', randomUUID()],
      window: { beforeMs: -1, afterMs: 86_400_001 },
    });

    expect(answer.status).toBe(400);
    const { code, errors } = answer.json();
    expect(code).toBe('invalid_request');
    expect(errors.map(({ pointer }: { pointer: string }) => pointer).toSorted()).toEqual([
      '/eventIds/0',
      '/events/0/buildId',
      '/events/1/sessionId',
      '/events/2/sessionId',
      '/id',
      '/occurredAt',
      '/sessionId',
      '/window/afterMs',
      '/window/beforeMs',
    ]);
    const index = (pointer: string) =>
      errors.find((error: { pointer: string }) => error.pointer === pointer).index;
    expect([index('/id'), index('/events/0/buildId'), index('/events/2/sessionId')]).toEqual([0, 0, 2]);
  });

  test.each<[string, Record<string, unknown>, number, string, RegExp]>([
    [
      'a file that is not there',
      { report: { title: 't' }, attachments: [{ ...FILE, uploadId: anUnknownId() }] },
      404,
      'unknown_upload',
      /does not exist in project/,
    ],
    [
      'a context that is too large',
      { report: { title: 't' }, context: { x: 'x'.repeat(64 * 1024) } },
      413,
      'field_too_large',
      /context may have at most 65536/,
    ],
    [
      'too many named events',
      { eventIds: Array(1001).fill(randomUUID()) },
      413,
      'batch_too_large',
      /eventIds .*1000/,
    ],
    ['too many inline events', { events: events(501) }, 400, 'invalid_request', /sessionId is required/],
  ])('with %s', async (_, of, status, code, detail) => {
    const answer = await game.report(of);

    expect([answer.status, answer.json().code]).toEqual([status, code]);
    expect(answer.json().detail).toMatch(detail);
  });

  test('with more events than the batch limit of the revision', async () => {
    const { sessionId } = game;
    const loose = await shared.aProject({ revision: 'B' });
    const ofA = await game.report({ events: events(501, { sessionId }) });
    const ofB = await loose.report({ events: events(201) });

    expect([ofA.status, ofA.json().code]).toEqual([413, 'batch_too_large']);
    expect(ofA.json().detail).toMatch(/events may have at most 500 elements, but has 501/);
    expect([ofB.status, ofB.json().code]).toEqual([413, 'batch_too_large']);
    expect((await game.report({ events: events(500, { sessionId }) })).status).toBe(201);
  });

  test('with a too large event or body', async () => {
    const { sessionId } = game;
    const large = anEvent({ sessionId, payload: { x: 'x'.repeat(256 * 1024) } });
    const event = await game.report({ events: [large] });
    const body = await game.report({ sessionId, x: 'x'.repeat(8 * 1024 * 1024) });

    expect([event.status, event.json().code]).toEqual([413, 'event_too_large']);
    expect(event.json().errors[0]).toMatchObject({ index: 0, pointer: '/events/0' });
    expect([body.status, body.json().code]).toEqual([413, 'body_too_large']);
  });

  test('with the same problem for an unknown session and a session of another project', async () => {
    const other = await shared.aProject({ tenantId: game.tenantId });
    const unknown = anUnknownId();
    for (const sessionId of [unknown, other.sessionId]) {
      const own = await game.report({ sessionId });
      const ofEvent = await game.report({ sessionId: game.sessionId, events: [anEvent({ sessionId })] });
      expect([own.status, own.json().code]).toEqual([404, 'unknown_session']);
      expect(own.json().errors).toMatchObject([{ index: 0, pointer: '/sessionId', code: 'unknown_session' }]);
      expect([ofEvent.status, ofEvent.json().code]).toEqual([404, 'unknown_session']);
      expect(ofEvent.json().errors).toMatchObject([{ index: 0, pointer: '/events/0/sessionId' }]);
    }
  });

  test('as 400 before 413 before 404', async () => {
    const sessionId = anUnknownId();
    const large = anEvent({ sessionId: game.sessionId, payload: { x: 'x'.repeat(256 * 1024) } });

    expect((await game.report({ sessionId, events: [large], window: 7 })).status).toBe(400);
    const answer = await game.report({ sessionId, events: [large] });
    expect([answer.status, answer.json().errors.length]).toEqual([413, 2]);
  });

  test.each([
    ['a field that occurs twice', '{"sessionId":"x","sessionId":null}', 400, 'invalid_request'],
    ['half a document', '{"sessionId":', 400, 'invalid_json'],
    ['an array', '[]', 400, 'invalid_request'],
    ['a text that is not UTF-8', Buffer.from([0x7b, 0xff, 0x7d]), 400, 'invalid_utf8'],
  ])('as %s', async (_, body, status, code) => {
    const answer = await game.report(body, { 'Content-Type': 'application/json' });

    expect([answer.status, answer.json().code]).toEqual([status, code]);
  });

  test('in another media type or coding', async () => {
    expect((await game.report('{}', { 'Content-Type': 'text/plain' })).status).toBe(415);
    const coded = { 'Content-Type': 'application/json', 'Content-Encoding': 'lz4' };
    expect((await game.report('{}', coded)).status).toBe(415);
  });

  test('for its token before the body arrives', async () => {
    const wire = await openWire(shared.product.credentials.baseUrl);
    const headers = { Authorization: 'Bearer nobody', 'Content-Type': 'application/json' };
    const answer = await wire.ask({ path: '/v1/ingest/reports', headers, body: '{}', sending: 'held back' });

    expect(answer.status).toBe(401);
    wire.close();
  });

  test('and stores nothing: its id stays available', async () => {
    const own = await shared.aProject({ revision: 'A' });
    const [id, { sessionId }] = [randomUUID(), own];
    const refused = await own.report({ id, sessionId, events: [anEvent({ sessionId }), anEvent()] });
    expect(refused.status).toBe(400);

    expect((await own.get(`/v1/reports/${id}`)).status).toBe(404);
    expect((await own.get(`/v1/sessions/${sessionId}/events`)).json().events).toEqual([]);
    expect((await own.get('/v1/quota')).json().used).toBe(0);
    expect((await own.report({ id, sessionId })).status).toBe(201);
  });
});

describe.concurrent('a page of a report’s events', () => {
  test.each(['limit=0', 'limit=1001', 'limit=x', 'cursor=x'])('with %s gets a 400', async (query) => {
    const { id } = (await game.report({ sessionId: game.sessionId })).json();
    const answer = await game.get(`/v1/reports/${id}/events?${query}`);

    expect([answer.status, answer.json().code]).toEqual([400, 'invalid_request']);
  });
});

describe.concurrent('a window of a project', () => {
  test.each([{ beforeMs: 1 }, { beforeMs: -1, afterMs: 0 }, { beforeMs: 0, afterMs: 86_400_001 }, 7])(
    'is rejected by the admin API if it is invalid: %j',
    async (reportWindow) => {
      const answer = await shared.product.admin('PATCH', `/admin/projects/${game.projectId}`, {
        reportWindow,
      });

      expect([answer.status, answer.json().code]).toEqual([400, 'invalid_request']);
      expect(answer.json().errors[0].pointer).toMatch(/^\/reportWindow/);
    },
  );

  test('is the same for any order of its fields', async () => {
    const project = { id: randomUUID(), tenantId: game.tenantId, name: 'windowed' };
    const make = (reportWindow: object) =>
      shared.product.admin('POST', '/admin/projects', { ...project, reportWindow });

    expect((await make({ beforeMs: 1, afterMs: 2 })).status).toBe(201);
    expect((await make({ afterMs: 2, beforeMs: 1 })).status).toBe(200);
    expect((await make({ beforeMs: 1, afterMs: 3 })).status).toBe(409);
  });
});
