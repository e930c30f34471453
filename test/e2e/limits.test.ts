/** Tests the limits of a request (number of elements, bytes of an event, nesting) and the media types of a body. */
import { beforeAll, describe, expect, test } from 'vitest';
import { anEvent, events, rawEvent, type TestProject } from './builders.ts';
import { sharedProduct } from './sharedProduct.ts';

const shared = sharedProduct();
const MAX_EVENT_BYTES = 256 * 1024;
let game: TestProject;
let gameB: TestProject;

beforeAll(async () => {
  game = await shared.aProject({ revision: 'A' });
  gameB = await shared.aProject({ revision: 'B' });
});

describe.concurrent('an array', () => {
  test('of 500 events is accepted in revision A, and one of 501 is a 413', async () => {
    const most = await game.post(events(500, { sessionId: game.sessionId }));
    const tooMany = await game.post(events(501, { sessionId: game.sessionId }));

    expect(most.status).toBe(201);
    expect(most.json()).toHaveLength(500);
    expect(tooMany.status).toBe(413);
    expect(tooMany.json()).toMatchObject({ code: 'batch_too_large', status: 413 });
  });

  test('of 200 events is accepted in revision B, and one of 201 is a 413', async () => {
    expect((await gameB.post(events(200))).status).toBe(201);
    expect((await gameB.post(events(201))).status).toBe(413);
  });

  test('over the limit is a 413 for good and bad elements, and stores nothing', async () => {
    const own = await shared.aProject({ revision: 'A' });
    expect((await own.post(Array.from({ length: 501 }, () => ({})))).status).toBe(413);
    expect((await own.post(events(501, { sessionId: own.sessionId }))).status).toBe(413);
    expect((await own.get('/v1/quota')).json().used).toBe(0);
  });

  test('over the limit that is not JSON is a 400', async () => {
    const text = JSON.stringify(events(600, { sessionId: game.sessionId })).slice(0, -1);
    expect((await game.post(text)).status).toBe(400);
  });
});

describe.concurrent('an event', () => {
  test('of 256 KiB is accepted and returned in full, and one byte more is a 413', async () => {
    const fits = await game.post(eventOf(MAX_EVENT_BYTES));
    const exceeds = await game.post(eventOf(MAX_EVENT_BYTES + 1));

    expect(fits.status).toBe(201);
    const read = await game.get(`/v1/events/${fits.json()[0].id}`);
    expect(`[${read.text()}]`).toBe(fits.text());
    expect(exceeds.status).toBe(413);
    expect(exceeds.json()).toMatchObject({ code: 'event_too_large', errors: [{ index: 0, pointer: '' }] });
  });

  test('of 256 KiB is stored in a batch of 31 such events', async () => {
    const each = eventOf(MAX_EVENT_BYTES);
    const joined = Array.from({ length: 31 }, () => each).flatMap((event, i) =>
      i === 0 ? [event] : [COMMA, event],
    );
    const answer = await game.post(Buffer.concat([Buffer.from('['), ...joined, Buffer.from(']')]));

    expect(answer.status).toBe(201);
    const last = answer.json()[30];
    expect((await game.get(`/v1/events/${last.id}`)).json()).toEqual(last);
  });
});

describe.concurrent('nesting', () => {
  test.each([
    ['objects', (depth: number) => `${'{"a":'.repeat(depth - 1)}{}${'}'.repeat(depth - 1)}`],
    ['arrays in an object', (depth: number) => `{"a":${'['.repeat(depth - 1)}${']'.repeat(depth - 1)}}`],
  ])('of 64 levels in a payload is accepted and returned, and 65 levels are a 400: %s', async (_, nested) => {
    const fits = await game.post(rawEvent(nested(64), { sessionId: game.sessionId }));
    const exceeds = await game.post(rawEvent(nested(65), { sessionId: game.sessionId }));

    expect(fits.status).toBe(201);
    const read = await game.get(`/v1/events/${fits.json()[0].id}`);
    expect(read.text()).toContain(`"payload":${nested(64)},`);
    expect(exceeds.status).toBe(400);
    expect(exceeds.json().errors).toEqual([
      { index: 0, pointer: '/payload', code: 'nested_too_deep', detail: expect.any(String) },
    ]);
  });
});

describe.concurrent('a Content-Type', () => {
  test.each([
    'application/json',
    'application/json; charset=utf-8',
    'Application/JSON',
    'application/json ;a=b',
  ])('of JSON is accepted: %s', async (type) => {
    const answer = await game.post(anEvent({ sessionId: game.sessionId }), { 'Content-Type': type });

    expect(answer.status).toBe(201);
  });

  test.each([
    'text/plain',
    'application/x-www-form-urlencoded',
    'application/jsonp',
    'text/json',
    'application/x-ndjson',
    '',
  ])('of any other type is a 415: %j', async (type) => {
    const answer = await game.post(anEvent({ sessionId: game.sessionId }), { 'Content-Type': type });

    expect(answer.status).toBe(415);
    expect(answer.json().code).toBe('unsupported_media_type');
  });
});

const COMMA = Buffer.from(',');

/** Returns an event with exactly `bytes` bytes. */
function eventOf(bytes: number): Buffer {
  const empty = rawEvent('{"x":""}', { sessionId: game.sessionId });
  return rawEvent(`{"x":"${'x'.repeat(bytes - empty.length)}"}`, { sessionId: game.sessionId });
}
