/** Tests that an entry stays in the queue until Questlog accepts or rejects the entry. */
import { beforeEach, expect, test } from 'vitest';
import {
  accepted,
  advance,
  FakeServer,
  json,
  networkFailure,
  proxyAnswer,
  rejected,
  useFakedClock,
} from './testing/fakeServer.ts';
import { memoryStore } from './testing/memoryStore.ts';

const MINUTE_MS = 60_000;
let server: FakeServer;

useFakedClock();
beforeEach(() => {
  server = new FakeServer();
});

test.each([
  ['not_found', rejected(404, 'not_found'), /answers 404 not_found: it is not_found/],
  ['method_not_allowed', rejected(405, 'method_not_allowed'), /405/],
  ['misdirected_request', rejected(421, 'misdirected_request'), /421/],
  ['unsupported_media_type', rejected(415, 'unsupported_media_type'), /415/],
  ['unavailable', rejected(503, 'unavailable'), /503 unavailable: it is unavailable/],
  ['not_questlog', proxyAnswer(404), /404/],
  ['not_questlog', proxyAnswer(401), /401/],
  ['not_questlog', proxyAnswer(403), /403/],
  ['not_questlog', proxyAnswer(405), /405/],
  ['not_questlog', proxyAnswer(407), /407/],
  ['not_questlog', proxyAnswer(413), /413/],
  ['not_questlog', proxyAnswer(415), /415/],
  ['not_questlog', proxyAnswer(200), /200/],
  ['not_questlog', () => json(400, { code: 'invalid_request', message: 'of another API' }), /400/],
])(
  'keeps the entries of this run and of an earlier run if the response rejects no entry (%s)',
  async (code, answer, message) => {
    const before = await server.start({ queue: memoryStore() });
    await before.flush();
    const store = memoryStore();
    server.always(networkFailure);
    const earlier = await server.start({ queue: store });
    earlier.event('earlier');
    void earlier.report({ title: 'stuck' });
    await earlier.end();
    server.problems.length = 0;
    server.always(answer);
    const persistent = memoryStore(store.entries);
    const game = await server.start({ queue: persistent });
    game.event('later');
    void game.report({ title: 'again' });
    await advance(90 * MINUTE_MS);

    expect(game.counts).toMatchObject({ queued: 6, refused: 0, dropped: 0, uncertain: 0 });
    expect(persistent.entries.size).toBe(6);
    expect(server.problems[0]).toMatchObject({
      kind: 'unreachable',
      code,
      message: expect.stringMatching(message),
    });
  },
);

test('keeps a report that a proxy rejects, and sends later entries', async () => {
  server.always((sent) => (sent.path.endsWith('/reports') ? proxyAnswer(403)(sent) : accepted(sent)));
  const game = await server.start();
  void game.report({ title: 'stuck' });
  await advance(0);
  game.event('a');
  await advance(10_000);
  expect(game.counts).toMatchObject({ queued: 1, sent: 1, refused: 0 });
  expect(await game.flush()).toBe(false);
  await advance(10 * MINUTE_MS);
  const tries = server.sent.filter(({ path }) => path.endsWith('/reports')).length;
  expect(tries).toBeGreaterThan(5);
  expect(tries).toBeLessThan(13);
  server.always(accepted);
  await advance(2 * MINUTE_MS);

  expect(game.counts).toMatchObject({ queued: 0, refused: 0 });
});

test('keeps an event that is too large for a proxy, and sends later entries', async () => {
  server.always((sent) => (sent.text.includes('large') ? proxyAnswer(413)(sent) : accepted(sent)));
  const game = await server.start();
  await game.flush();
  for (const name of ['a', 'b', 'large', 'c', 'd']) game.event(name);
  await advance(MINUTE_MS);

  expect(game.counts).toMatchObject({ queued: 1, sent: 4, refused: 0 });
  server.always(accepted);
  await advance(2 * MINUTE_MS);
  expect(game.counts).toMatchObject({ queued: 0, sent: 5 });
});
