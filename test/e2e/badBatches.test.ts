/**
 * Tests rejected batches. No event of a rejected batch is stored, a 400 takes precedence over a 404, and the answer names every
 * bad element.
 */
import { beforeAll, describe, expect, test } from 'vitest';
import { anEvent, anUnknownId, type TestProject } from './builders.ts';
import { sharedProduct } from './sharedProduct.ts';

const shared = sharedProduct();
let game: TestProject;

beforeAll(async () => {
  game = await shared.aProject({ revision: 'A' });
});

describe('a batch with bad elements', () => {
  test('stores none of its elements, including the good ones', async () => {
    const own = await shared.aProject({ revision: 'A' });
    const good = anEvent({ sessionId: own.sessionId });
    const rejected = await own.post([good, good, { sessionId: own.sessionId }, good]);

    expect(rejected.status).toBe(400);
    expect((await own.get(`/v1/sessions/${own.sessionId}/events`)).json()).toEqual({
      events: [],
      next: null,
    });
    expect((await own.get('/v1/quota')).json().used).toBe(0);
    const answer = await own.post(good);
    const page = await own.get(`/v1/sessions/${own.sessionId}/events`);
    expect(page.json().events).toEqual(answer.json());
  });

  test('is a 400, not a 404, if both apply, and names both kinds of errors', async () => {
    const answer = await game.post([
      anEvent({ sessionId: anUnknownId() }),
      anEvent(),
      anEvent({ sessionId: game.sessionId }),
    ]);

    expect(answer.status).toBe(400);
    expect(answer.json()).toMatchObject({ code: 'invalid_elements', status: 400 });
    expect(namesIn(answer.json())).toEqual(['0 /sessionId unknown_session', '1 /sessionId field_required']);
  });

  test('is a 404 that names each unknown session if there are no other errors', async () => {
    const answer = await game.post([
      anEvent({ sessionId: anUnknownId() }),
      anEvent({ sessionId: game.sessionId }),
      anEvent({ sessionId: anUnknownId() }),
    ]);

    expect(answer.status).toBe(404);
    expect(namesIn(answer.json())).toEqual(['0 /sessionId unknown_session', '2 /sessionId unknown_session']);
  });

  test('is a 413, not a 404, and a 400, not a 413', async () => {
    const large = anEvent({ sessionId: game.sessionId, payload: { x: 'x'.repeat(256 * 1024) } });
    const unknown = anEvent({ sessionId: anUnknownId() });

    expect((await game.post([large, unknown])).status).toBe(413);
    const worst = await game.post([large, unknown, anEvent()]);
    expect(worst.status).toBe(400);
    expect(namesIn(worst.json())).toEqual([
      '0  event_too_large',
      '1 /sessionId unknown_session',
      '2 /sessionId field_required',
    ]);
  });

  test('names every bad element by index, pointer and code, in order', async () => {
    const { sessionId } = game;
    const ok = anEvent({ sessionId });
    const answer = await game.post([
      ok,
      { sessionId },
      anEvent({ sessionId: 'x' }),
      ok,
      anEvent({ sessionId, buildId: 7 }),
      anEvent({ sessionId, occurredAt: 'yesterday' }),
      anEvent({ sessionId, occurredAt: '1899-12-31T23:59:59Z' }),
      anEvent({ sessionId, payload: [] }),
      'event',
      null,
      anEvent({ sessionId, eventType: null }),
      anEvent({ sessionId: anUnknownId() }),
      {},
    ]);

    expect(answer.status).toBe(400);
    expect(namesIn(answer.json())).toEqual([
      '1 /eventType field_required',
      '2 /sessionId invalid_uuid',
      '4 /buildId field_type',
      '5 /occurredAt invalid_timestamp',
      '6 /occurredAt timestamp_out_of_range',
      '7 /payload field_type',
      '8  field_type',
      '9  field_type',
      '10 /eventType field_type',
      '11 /sessionId unknown_session',
      '12 /eventType field_required',
      '12 /sessionId field_required',
    ]);
    for (const { detail } of answer.json().errors) expect(detail).toEqual(expect.stringMatching(/\w/));
  });

  test('names all 500 elements if all are bad', async () => {
    const answer = await game.post(Array.from({ length: 500 }, () => ({})));

    expect(answer.status).toBe(400);
    expect(new Set(answer.json().errors.map(({ index }: { index: number }) => index)).size).toBe(500);
  });
});

describe('a single object', () => {
  test.each([
    ['without an eventType', { eventType: undefined }, '/eventType field_required'],
    ['with a number as eventType', { eventType: 7 }, '/eventType field_type'],
    ['with an object as eventType', { eventType: {} }, '/eventType field_type'],
    ['with a buildId that is not a UUID', { buildId: 'nightly' }, '/buildId invalid_uuid'],
    ['with a buildId that is empty', { buildId: '' }, '/buildId invalid_uuid'],
    ['with a UUID in braces', { buildId: `{${anUnknownId()}}` }, '/buildId invalid_uuid'],
    ['with a UUID without hyphens', { buildId: anUnknownId().replaceAll('-', '') }, '/buildId invalid_uuid'],
    ['with a boolean as sessionId', { sessionId: true }, '/sessionId field_type'],
    ['with a number as occurredAt', { occurredAt: 1_763_750_000_000 }, '/occurredAt field_type'],
    ['with a string as payload', { payload: '{}' }, '/payload field_type'],
    ['with a number as payload', { payload: 1 }, '/payload field_type'],
    ['with false as payload', { payload: false }, '/payload field_type'],
  ])('%s is a 400 that names the field', async (_, fields, name) => {
    const answer = await game.post(anEvent({ sessionId: game.sessionId, ...fields }));

    expect(answer.status).toBe(400);
    expect(namesIn(answer.json())).toEqual([`0 ${name}`]);
  });

  test.each(['sessionId', 'buildId', 'eventType', 'occurredAt', 'payload'])(
    'with a repeated %s is a 400, even if the values are equal',
    async (field) => {
      const whole = {
        sessionId: game.sessionId,
        eventType: 'x',
        buildId: null,
        occurredAt: null,
        payload: {},
      };
      const value = JSON.stringify(Reflect.get(whole, field));
      const answer = await game.post(`${JSON.stringify(whole).slice(0, -1)},"${field}":${value}}`);

      expect(answer.status).toBe(400);
      expect(namesIn(answer.json())).toEqual([`0 /${field} field_repeated`]);
    },
  );

  test('with a field repeated under an escaped name is a 400', async () => {
    const answer = await game.post(`{"sessionId":"${game.sessionId}","eventType":"x","event\\u0054ype":"y"}`);

    expect(answer.status).toBe(400);
    expect(namesIn(answer.json())).toEqual(['0 /eventType field_repeated']);
  });

  test('with a repeated unknown field is accepted', async () => {
    const answer = await game.post(`{"sessionId":"${game.sessionId}","eventType":"x","a":1,"a":2}`);

    expect(answer.status).toBe(201);
  });

  test.each(['\\ud800', 'a\\udc00b', '\\ud83d\\ud83d'])(
    'with a lone surrogate as eventType is a 400: %s',
    async (text) => {
      const answer = await game.post(`{"sessionId":"${game.sessionId}","eventType":"${text}"}`);

      expect(answer.status).toBe(400);
      expect(namesIn(answer.json())).toEqual(['0 /eventType lone_surrogate']);
    },
  );

  test('is accepted with field names written with escapes', async () => {
    const answer = await game.post(`{"\\u0073essionId":"${game.sessionId}","event\\u0054ype":"\\u0078"}`);

    expect(answer.status).toBe(201);
    expect(answer.json()[0]).toMatchObject({ sessionId: game.sessionId, eventType: 'x' });
  });
});

describe('a body that is neither an event nor an array', () => {
  test.each([['"text"'], ['7'], ['true'], ['null']])(
    'is a 400 with the code invalid_body: %s',
    async (body) => {
      const answer = await game.post(body);

      expect(answer.status).toBe(400);
      expect(answer.json().code).toBe('invalid_body');
    },
  );

  test.each([
    [''],
    [' '],
    ['{'],
    ['[{}'],
    ['{"eventType":"x"}}'],
    ['{"eventType":"x",}'],
    ["{'eventType':'x'}"],
    ['\ufeff{}'],
  ])('is a 400 if it is not JSON: %j', async (body) => {
    const answer = await game.post(body);

    expect(answer.status).toBe(400);
    expect(answer.json().code).toBe('invalid_json');
  });

  test.each([['c328'], ['ff'], ['eda080'], ['c0af'], ['f4908080'], ['e282']])(
    'is a 400 if it is not UTF-8: bytes %s in a string of the payload',
    async (hex) => {
      const body = Buffer.concat([
        Buffer.from(`{"sessionId":"${game.sessionId}","eventType":"x","payload":{"a":"`),
        Buffer.from(hex, 'hex'),
        Buffer.from('"}}'),
      ]);
      const answer = await game.post(body);

      expect(answer.status).toBe(400);
      expect(answer.json().code).toBe('invalid_utf8');
    },
  );
});

interface ProblemErrors {
  readonly errors: readonly { readonly index: number; readonly pointer: string; readonly code: string }[];
}

/** Returns each error in the form `index pointer code`, sorted by index and pointer. */
function namesIn({ errors }: ProblemErrors): string[] {
  const sorted = errors.toSorted((a, b) => a.index - b.index || (a.pointer < b.pointer ? -1 : 1));
  return sorted.map(({ index, pointer, code }) => `${index} ${pointer} ${code}`);
}
