import { beforeEach, describe, expect, test, vi } from 'vitest';
import type { Game } from './client.ts';
import {
  advance,
  FakeServer,
  json,
  networkFailure,
  neverAnswers,
  rejected,
  uploadTarget,
  useFakedClock,
} from './testing/fakeServer.ts';
import { memoryStore } from './testing/memoryStore.ts';

const DAY_MS = 86_400_000;
const INTERVAL_MS = 5_000;
let server: FakeServer;

useFakedClock();
beforeEach(() => {
  server = new FakeServer();
});

describe('events', () => {
  test('are sent in one batch after the session and the interval, numbered from 1', async () => {
    const game = await server.start({
      build: { version: '1.4.2', platform: 'Web' },
      player: { externalId: 'p' },
    });
    game.event('checkpoint', { level: 3 });
    game.event('error');
    await advance(INTERVAL_MS);

    expect(server.sent.map(({ path }) => path)).toEqual(['/v1/ingest/sessions', '/v1/ingest/events']);
    expect(JSON.parse(server.sent[0]?.text ?? '')).toMatchObject({
      ...{ id: game.sessionId, player: { externalId: 'p' } },
      build: { version: '1.4.2', platform: 'Web' },
    });
    expect(server.batches()).toMatchObject([
      [
        { sessionId: game.sessionId, eventType: 'checkpoint', sequence: 1, payload: { level: 3 } },
        { sessionId: game.sessionId, eventType: 'error', sequence: 2, payload: {} },
      ],
    ]);
    expect(server.sent[1]?.headers).toMatchObject({
      authorization: 'Bearer a-token',
      prefer: 'handling=lenient',
      'Idempotency-Key': expect.stringMatching(
        /^[\da-f]{8}-[\da-f]{4}-7[\da-f]{3}-[89ab][\da-f]{3}-[\da-f]{12}$/,
      ),
    });
    expect(game.counts).toEqual({ queued: 0, sent: 2, refused: 0, dropped: 0, uncertain: 0 });
  });

  test('are sent at once if a batch is full, by number or by bytes, and only the full batches', async () => {
    const game = await server.start({ maxBatchEvents: 3 });
    await advance(0);
    for (let n = 0; n < 4; n += 1) game.event('n', { n });
    await advance(1);
    expect(server.batches().map((batch) => batch.length)).toEqual([3]);

    for (let n = 0; n < 2; n += 1) game.event('large', { x: 'é'.repeat(29_000) });
    await advance(1);
    expect(server.batches().map((batch) => batch.length)).toEqual([3, 2]);
    await game.flush();
    expect(server.batches().map((batch) => batch.length)).toEqual([3, 2, 1]);
    expect(
      server
        .batches()
        .flat()
        .map(({ sequence }) => sequence),
    ).toEqual([1, 2, 3, 4, 5, 6]);
  });

  test('that cannot be serialized are reported and use no sequence number', async () => {
    const game = await server.start();
    game.event('bad', { n: 1n });
    game.event('good');
    await game.flush();

    expect(server.problems).toMatchObject([{ kind: 'refused', code: 'no_json', entry: 'bad' }]);
    expect(server.batches()).toMatchObject([[{ eventType: 'good', sequence: 1 }]]);
  });
});

describe('a missing response', () => {
  test.each([
    ['no answer', networkFailure],
    ['a 503', rejected(503, 'unavailable')],
    ['garbage', () => new Response('<html>Sign in to the hotel', { status: 200 })],
    ['half an answer', () => new Response('[{"id":"event-0"', { status: 207 })],
    ['an answer for other events', () => json(207, [{ id: 'a' }, { id: 'b' }])],
    ['a 403 of a proxy', () => new Response('blocked', { status: 403 })],
    ['a 404 of a proxy', () => new Response('nothing here', { status: 404 })],
  ])('%s: the same bytes are sent again with the same key, before new events', async (_, answer) => {
    const game = await server.start();
    await game.flush();
    server.next(answer, answer);
    game.event('first');
    await game.flush();
    game.event('second');
    await advance(10 * 60_000);

    const [first, again, thrice, ...others] = server.batches();
    expect([again, thrice]).toEqual([first, first]);
    expect(others).toMatchObject([[{ eventType: 'second' }]]);
    const [key, ...keys] = server.keys();
    expect(keys).toEqual([key, key, expect.not.stringMatching(key ?? '')]);
    expect(game.counts).toMatchObject({ queued: 0, sent: 2 });
    expect(server.problems).toMatchObject([{ kind: 'unreachable' }, { kind: 'reached' }]);
  });

  test('doubles the maximum of the random delay for each retry', async () => {
    vi.spyOn(Math, 'random').mockReturnValue(0.5);
    server.next(...Array.from({ length: 12 }, () => networkFailure));
    await server.start();
    const waits: number[] = [];
    for (let tries = 1, before = Date.now(); tries < 10; ) {
      await advance(100);
      if (server.sent.length <= tries) continue;
      waits.push(Math.round((Date.now() - before) / 1_000));
      before = Date.now();
      tries = server.sent.length;
    }
    expect(waits).toEqual([1, 2, 4, 8, 16, 30, 30, 30, 30]);
  });

  test('with Retry-After delays every request of the game', async () => {
    server.next(rejected(429, 'too_many', { 'Retry-After': '120' }));
    const game = await server.start({ maxBatchEvents: 2 });
    await advance(0);
    for (let n = 0; n < 5; n += 1) game.event('n');
    expect(await game.flush()).toBe(false);
    await advance(119_000);
    expect(server.sent.length).toBe(1);
    await advance(60_000);
    expect(game.counts).toMatchObject({ queued: 0, sent: 5 });
  });

  test('is retried in time after the clock was set back', async () => {
    server.next(networkFailure);
    const game = await server.start();
    game.event('a');
    await advance(0);
    vi.setSystemTime(Date.now() - DAY_MS);
    await advance(60_000);

    expect(game.counts).toMatchObject({ queued: 0, sent: 1 });
  });

  test('for a day makes the batch uncertain: it is counted, reported, and not sent again', async () => {
    const game = await server.start();
    await game.flush();
    server.next(networkFailure);
    game.event('first');
    await game.flush();
    vi.setSystemTime(Date.now() + DAY_MS);
    game.event('second');
    await advance(10 * 60_000);

    expect(server.losses()).toEqual([{ kind: 'uncertain', events: 1 }]);
    expect(server.batches()).toMatchObject([
      [{ eventType: 'first' }],
      [{ eventType: 'second' }, { eventType: 'questlog_lost', payload: { dropped: 0, uncertain: 1 } }],
    ]);
  });

  test('of a request that was never sent makes no batch uncertain: the batch gets a new key after a day', async () => {
    const game = await server.start();
    await game.flush();
    server.next(() => Promise.reject(new TypeError('fetch failed', { cause: { code: 'ECONNREFUSED' } })));
    game.event('first');
    await game.flush();
    vi.setSystemTime(Date.now() + DAY_MS);
    await advance(10 * 60_000);

    expect(server.batches()).toMatchObject([[{ eventType: 'first' }], [{ eventType: 'first' }]]);
    expect(new Set(server.keys()).size).toBe(2);
    expect(game.counts).toMatchObject({ sent: 1, uncertain: 0 });
  });
});

describe('a rejection by Questlog', () => {
  test('of an element drops, counts, and reports the element, and the others are stored', async () => {
    const game = await server.start();
    await game.flush();
    server.next(() =>
      json(207, [{ id: 'a' }, { code: 'event_too_large', message: 'too large' }, { id: 'c' }]),
    );
    for (const name of ['a', 'b', 'c']) game.event(name);
    await game.flush();

    expect(server.batches().length).toBe(1);
    expect(server.problems).toMatchObject([
      { kind: 'refused', code: 'event_too_large', message: 'too large' },
    ]);
    expect(JSON.stringify(server.problems)).toContain('\\"eventType\\":\\"b\\"');
    expect(game.counts).toMatchObject({ queued: 0, sent: 2, refused: 1 });
  });

  test('of a whole batch splits the batch until only the invalid event is dropped', async () => {
    const tooLarge = rejected(413, 'batch_too_large');
    const game = await server.start();
    await game.flush();
    server.next(tooLarge, tooLarge, tooLarge);
    for (const name of ['a', 'b', 'c', 'd']) game.event(name);
    await game.flush();

    expect(server.batches().map((batch) => batch.map(({ eventType }) => eventType).join(''))).toEqual([
      ...['abcd', 'ab', 'a', 'b', 'c', 'd'],
    ]);
    expect(new Set(server.keys()).size).toBe(6);
    expect(server.problems).toMatchObject([{ kind: 'refused', code: 'batch_too_large' }]);
    expect(game.counts).toMatchObject({ queued: 0, sent: 3, refused: 1 });
  });

  test('of a report rejects the promise of the report', async () => {
    const game = await server.start();
    await game.flush();
    server.next(rejected(400, 'invalid_request'));

    await expect(game.report({ title: '' })).rejects.toThrow('invalid_request: it is invalid_request');
    expect(server.problems).toMatchObject([{ kind: 'refused', code: 'invalid_request' }]);
    expect(game.counts).toMatchObject({ queued: 0, refused: 1 });
  });

  test.each([
    [401, 'unauthorized'],
    [403, 'forbidden'],
  ])('of the token, %d, stops the client and is reported once', async (status, code) => {
    server.next(rejected(status, code));
    const game = await server.start();
    game.event('a');
    await advance(DAY_MS);
    game.event('b');
    expect(await game.flush()).toBe(false);
    await advance(DAY_MS);

    expect(server.sent.length).toBe(1);
    expect(server.problems).toEqual([{ kind: 'stopped', code, message: `it is ${code}` }]);
    expect(game.counts).toMatchObject({ queued: 3 });
  });

  test('of a report, because the token lacks `reports:write`, drops only the report', async () => {
    const game = await server.start();
    await game.flush();
    server.next(rejected(403, 'forbidden'));
    await expect(game.report({ title: 'stuck' })).rejects.toThrow('forbidden: it is forbidden');
    game.event('a');

    expect(await game.flush()).toBe(true);
    expect(server.problems).toMatchObject([{ kind: 'refused', code: 'forbidden' }]);
    expect(game.counts).toMatchObject({ queued: 0, sent: 1, refused: 1 });
  });

  test('of an unknown session registers the session again and retries the batch', async () => {
    const game = await server.start();
    await game.flush();
    const unknown = () => json(207, [{ code: 'unknown_session', message: 'unknown' }]);
    server.next(unknown);
    game.event('a');
    await game.flush();

    expect(server.sent.map(({ path }) => path.slice('/v1/ingest/'.length))).toEqual([
      ...['sessions', 'events', 'sessions', 'events'],
    ]);
    expect(new Set(server.keys()).size).toBe(1);
    expect(game.counts).toMatchObject({ queued: 0, sent: 1, refused: 0 });
  });
});

describe('a page', () => {
  test('that is offline sends nothing until it is online', async () => {
    const listeners = stubPage();
    vi.stubGlobal('navigator', { onLine: false });
    const game = await server.start();
    game.event('a');
    await advance(10 * DAY_MS);
    expect(server.sent).toEqual([]);

    vi.stubGlobal('navigator', { onLine: true });
    listeners.get('online')?.();
    await advance(0);
    expect(game.counts).toMatchObject({ queued: 0, sent: 1, uncertain: 0 });
  });

  test('that closes sends at once what fits into 64 KiB with the requests in flight', async () => {
    const listeners = stubPage();
    const game = await server.start();
    await game.flush();
    const { promise, resolve } = Promise.withResolvers<Response>();
    const second = Promise.withResolvers<Response>();
    server.next(
      () => promise,
      () => second.promise,
    );
    game.event('under way', { x: 'x'.repeat(900) });
    void game.flush();
    await advance(0);
    game.event('b', { x: 'x'.repeat(40_000) });
    void game.report({ title: 'stuck' });
    game.event('c', { x: 'x'.repeat(30_000) });
    listeners.get('pagehide')?.();

    const leaving = server.sent.slice(2);
    expect(leaving.map(({ path }) => path)).toEqual(['/v1/ingest/events', '/v1/ingest/reports']);
    expect(server.sent.map(({ keepalive }) => keepalive)).toEqual([true, true, true, true]);
    expect(server.sent.slice(1).reduce((bytes, { text }) => bytes + text.length, 0)).toBeLessThan(65_536);
    resolve(json(207, [{ id: 'under way' }]));
    await advance(1_000);
    second.resolve(json(207, [{ id: 'b' }]));
    await game.flush();
    // If a page is only suspended, the client does not send these events again.
    expect(server.batches().map((batch) => batch.map(({ eventType }) => eventType))).toEqual([
      ...[['under way'], ['b'], ['c']],
    ]);
  });
});

test('end() sends the queue, and later events are ignored', async () => {
  const store = memoryStore();
  const game = await server.start({ queue: store });
  game.event('a');
  expect(await game.end()).toBe(true);
  game.consent(true);
  game.event('b');
  await advance(DAY_MS);

  expect(server.batches()).toMatchObject([[{ eventType: 'a' }]]);
  expect(game.counts).toMatchObject({ queued: 0, sent: 1 });
  expect(store.isClosed).toBe(true);
});

test.each([
  ['the token is rejected', (game: Game) => game.flush(), rejected(401, 'unauthorized')],
  ['the game ends', (game: Game) => game.end(), networkFailure],
])('rejects the promises of a queued report and of a later report when %s', async (_, stop, answer) => {
  const store = memoryStore();
  server.next(answer);
  const game = await server.start({ queue: store });
  const filed = game.report({ title: 'stuck' }).catch(String);
  await stop(game);

  expect(await filed).toMatch('next start');
  await expect(game.report({ title: 'again' })).rejects.toThrow('stopped, ended');
  expect([...store.entries.values()].map(({ kind }) => kind)).toEqual(['session', 'report']);
});

test('an upload without a response fails after the time limit', async () => {
  const limit = new AbortController();
  vi.spyOn(AbortSignal, 'timeout').mockReturnValue(limit.signal);
  const game = await server.start();
  await game.flush();
  server.next(uploadTarget, (sent) => {
    const hanging = neverAnswers(sent);
    limit.abort(new Error('nobody answers'));
    return hanging;
  });
  const file = game.upload(new Blob(['a log']), { attachmentType: 'log_bundle', fileName: 'a.log' });

  await expect(file).rejects.toThrow('nobody answers');
});

/** Replaces `addEventListener` of the page. Returns the registered listeners by the name of the event. */
function stubPage(): Map<string, () => void> {
  const listeners = new Map<string, () => void>();
  vi.stubGlobal('addEventListener', (event: string, listener: () => void) => listeners.set(event, listener));
  return listeners;
}
