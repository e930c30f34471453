/** Tests that a game loses no events because of a rate limit or a suspended project. */
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { advance, FakeServer, json, rejected } from './testing/fakeServer.ts';

let server: FakeServer;

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'Date', 'performance'] });
  server = new FakeServer();
});
afterEach(() => {
  vi.useRealTimers();
});

test('rate-limited events are sent again with their batch and its key after Retry-After', async () => {
  const game = await server.start();
  await game.flush();
  const [one, two] = [{ id: 'event-0' }, { code: 'rate_limited', message: 'try again in 60 s' }];
  server.next(() => json(207, [one, two], { 'Retry-After': '60' }));
  game.event('first');
  game.event('second');
  expect(await game.flush()).toBe(false);
  expect(game.counts).toMatchObject({ queued: 2, refused: 0 });
  await advance(59_000);
  expect(server.batches().length).toBe(1);
  await advance(60_000);

  const [first, again] = server.batches();
  expect(again).toEqual(first);
  expect(new Set(server.keys()).size).toBe(1);
  expect(game.counts).toMatchObject({ queued: 0, sent: 2, refused: 0 });
  expect(server.problems).toEqual([]);
});

test('a game of a suspended project stops, and keeps its queue for the next start', async () => {
  const game = await server.start();
  await game.flush();
  server.next(rejected(403, 'suspended'));
  game.event('first');
  expect(await game.flush()).toBe(false);
  await advance(86_400_000);

  expect(server.batches().length).toBe(1);
  expect(game.counts).toMatchObject({ queued: 1, refused: 0 });
  expect(server.problems).toEqual([{ kind: 'stopped', code: 'suspended', message: 'it is suspended' }]);
});
