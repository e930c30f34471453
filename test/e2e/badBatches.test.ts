/** Tests rejected batches. No event of a rejected batch is stored, and the answer names every bad element. */
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

describe('a body', () => {
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
