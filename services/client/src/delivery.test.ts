/** Tests that `end()` returns within its time limit. */
import { beforeEach, expect, test } from 'vitest';
import { accepted, advance, FakeServer, neverAnswers, useFakedClock } from './testing/fakeServer.ts';
import { memoryStore } from './testing/memoryStore.ts';

const MINUTE_MS = 60_000;
let server: FakeServer;

useFakedClock();
beforeEach(() => {
  server = new FakeServer();
});

test('end() returns within its limit if the server never responds, and keeps the unsent entries', async () => {
  const store = memoryStore();
  server.always(neverAnswers);
  const game = await server.start({ queue: store, endWithinMs: 100 });
  game.event('a');
  const ended = game.end();
  await advance(100);

  expect(await Promise.race([ended, 'still waits'])).toBe(false);
  expect([...store.entries.values()].map(({ kind }) => kind)).toEqual(['session', 'event']);
  expect(store.isClosed).toBe(true);
  expect(server.sent[0]?.signal.aborted).toBe(true);
});

test('end() returns within 2 s if each response takes 3 s, and keeps the unsent entries', async () => {
  const store = memoryStore();
  const late: (() => void)[] = [];
  server.always((sent) => {
    const { promise, resolve } = Promise.withResolvers<Response>();
    late.push(() => resolve(accepted(sent) as Response));
    return promise;
  });
  const game = await server.start({ queue: store });
  for (let n = 0; n < 2_000; n += 1) game.event('n', { n });
  const ended = game.end();
  await advance(2_000);

  expect(await Promise.race([ended, 'still waits'])).toBe(false);
  expect(store.entries.size).toBe(2_001);
  const requests = server.sent.length;
  await advance(1_000);
  for (const answer of late) answer();
  await advance(MINUTE_MS);
  expect(server.sent.length).toBe(requests);
  expect(server.problems).toEqual([]);
});

test('end() aborts an upload', async () => {
  server.always(neverAnswers);
  const game = await server.start();
  const named = { attachmentType: 'log_bundle', fileName: 'a.log' } as const;
  const file = game.upload(new Blob(['a log']), named).catch(String);
  const ended = game.end();
  await advance(2_000);

  expect(await ended).toBe(false);
  expect(await file).toMatch('the file was not sent');
});
