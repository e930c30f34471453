/**
 * Tests `Prefer: handling=lenient`. Questlog stores the valid elements, and answers with a 207 that has one result per element
 * in the order of the request.
 */
import { beforeAll, describe, expect, test } from 'vitest';
import { aKey, anEvent, anUnknownId, events, type TestProject } from './builders.ts';
import type { Answer } from './product.ts';
import { sharedProduct } from './sharedProduct.ts';

const shared = sharedProduct();
const LENIENT = { Prefer: 'handling=lenient' };
let game: TestProject;

beforeAll(async () => {
  game = await shared.aProject({ revision: 'A' });
});

describe.concurrent('with Prefer: handling=lenient', () => {
  test('a batch is a 207 with a created event or a problem per element, in request order', async () => {
    const { sessionId } = game;
    const answer = await game.post(
      [
        anEvent({ sessionId, payload: { n: 0 } }),
        anEvent({ sessionId: anUnknownId() }),
        anEvent({ sessionId, payload: { n: 2 } }),
        { sessionId, occurredAt: 'never' },
        'event',
        anEvent({ sessionId, payload: { n: 5 } }),
      ],
      { ...LENIENT, 'X-Request-Id': 'lenient-1' },
    );

    expect(answer.status).toBe(207);
    expect(answer.headers.get('preference-applied')).toBe('handling=lenient');
    const created = (n: number): object => ({
      id: expect.any(String),
      sessionId,
      buildId: null,
      eventType: 'checkpoint',
      occurredAt: expect.any(String),
      payload: { n },
      reportIds: [],
      overQuota: false,
    });
    const problem = (status: number, code: string, errors: [number, string, string][]): object => ({
      type: `urn:questlog:problem:${code}`,
      title: expect.any(String),
      status,
      code,
      detail: expect.any(String),
      instance: 'urn:questlog:request:lenient-1',
      message: expect.any(String),
      error: expect.any(String),
      errors: errors.map(([index, pointer, each]) => ({
        index,
        pointer,
        code: each,
        detail: expect.any(String),
      })),
    });
    expect(answer.json()).toEqual([
      created(0),
      problem(404, 'unknown_session', [[1, '/sessionId', 'unknown_session']]),
      created(2),
      expect.objectContaining({ status: 400, errors: expect.any(Array) }),
      problem(400, 'field_type', [[4, '', 'field_type']]),
      created(5),
    ]);
    const named: { pointer: string; code: string }[] = answer.json()[3].errors;
    expect(named.map(({ pointer, code }) => `${pointer} ${code}`).sort()).toEqual([
      '/eventType field_required',
      '/occurredAt invalid_timestamp',
    ]);
  });

  test('only the good elements are stored', async () => {
    const own = await shared.aProject({ revision: 'A' });
    const { sessionId } = own;
    const answer = await own.post([anEvent({ sessionId }), anEvent(), anEvent({ sessionId })], LENIENT);
    const page = await own.get(`/v1/sessions/${sessionId}/events`);

    const [first, , third] = answer.json();
    expect(page.json().events).toEqual([first, third]);
    expect((await own.get('/v1/quota')).json().used).toBe(2);
  });

  test('a batch without a bad element is a 207 of created events', async () => {
    const answer = await game.post(events(3, { sessionId: game.sessionId }), LENIENT);

    expect(answer.status).toBe(207);
    expect(answer.json().map(({ id }: { id: string }) => typeof id)).toEqual(['string', 'string', 'string']);
  });

  test('a batch without a good element is a 207 of problems, and nothing is stored', async () => {
    const own = await shared.aProject({ revision: 'A' });
    const answer = await own.post([{}, anEvent({ sessionId: anUnknownId() })], LENIENT);

    expect(answer.status).toBe(207);
    expect(answer.json()).toMatchObject([{ status: 400 }, { status: 404 }]);
    expect((await own.get('/v1/quota')).json().used).toBe(0);
  });

  test('a single object is answered with an array of one element', async () => {
    const good = await game.post(anEvent({ sessionId: game.sessionId }), LENIENT);
    const bad = await game.post(anEvent(), LENIENT);

    expect(good.status).toBe(207);
    expect(good.json()).toMatchObject([{ sessionId: game.sessionId }]);
    expect(bad.status).toBe(207);
    expect(bad.json()).toMatchObject([{ status: 400, errors: [{ index: 0, pointer: '/sessionId' }] }]);
  });

  test('an event that is too large is the problem of its element, and the others are stored', async () => {
    const { sessionId } = game;
    const large = anEvent({ sessionId, payload: { x: 'x'.repeat(256 * 1024) } });
    const answer = await game.post([anEvent({ sessionId }), large], LENIENT);

    expect(answer.status).toBe(207);
    expect(answer.json()).toMatchObject([{ sessionId }, { status: 413, code: 'event_too_large' }]);
  });

  test('quota flags count only the good elements', async () => {
    const own = await shared.aProject({ revision: 'A', monthlySoftQuota: 2 });
    const { sessionId } = own;
    const good = anEvent({ sessionId });
    const answer = await own.post([good, anEvent(), good, anEvent(), good], LENIENT);

    const flags = answer.json().map((element: { overQuota?: boolean }) => element.overQuota);
    expect(flags).toEqual([false, undefined, false, undefined, true]);
  });

  test('a request that is invalid as a whole is rejected', async () => {
    expect((await game.post('[', LENIENT)).status).toBe(400);
    expect((await game.post([], LENIENT)).status).toBe(400);
    expect((await game.post('7', LENIENT)).status).toBe(400);
    expect((await game.post(events(501, { sessionId: game.sessionId }), LENIENT)).status).toBe(413);
  });
});

describe.concurrent('with Prefer: handling=lenient and an Idempotency-Key', () => {
  test('a retry stores the elements that were rejected before, and nothing twice', async () => {
    const own = await shared.aProject({ revision: 'A' });
    const { sessionId } = own;
    const late = anUnknownId();
    const headers = { ...LENIENT, 'Idempotency-Key': aKey() };
    const body = [anEvent({ sessionId }), anEvent({ sessionId: late }), {}, anEvent({ sessionId })];

    const first = await own.post(body, headers);
    expect(first.json()).toMatchObject([{ sessionId }, { status: 404 }, { status: 400 }, { sessionId }]);
    await own.session({ id: late });
    const second = await own.post(body, headers);
    const third = await own.post(body, headers);

    expect(second.json()).toMatchObject([
      first.json()[0],
      { sessionId: late },
      { status: 400 },
      first.json()[3],
    ]);
    expect(second.headers.get('idempotency-replayed')).toBeNull();
    expect(third.status).toBe(207);
    expect(third.headers.get('idempotency-replayed')).toBe('true');
    expect(createdIn(third)).toEqual(createdIn(second));
    expect((await own.get('/v1/quota')).json().used).toBe(3);
    expect((await own.get(`/v1/sessions/${late}/events`)).json().events).toEqual([second.json()[1]]);
    expect(createdIn(await own.post(body, headers))).toEqual(createdIn(second));
  });
});

function createdIn(answer: Answer): unknown[] {
  return answer.json().filter((element: object) => 'id' in element);
}
