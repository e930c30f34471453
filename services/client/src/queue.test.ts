import { beforeEach, describe, expect, test, vi } from 'vitest';
import type { Game } from './client.ts';
import {
  advance,
  FakeServer,
  networkFailure,
  rejected,
  uploadTarget,
  useFakedClock,
} from './testing/fakeServer.ts';
import { memoryStore } from './testing/memoryStore.ts';

const DAY_MS = 86_400_000;
let server: FakeServer;

useFakedClock();
beforeEach(() => {
  server = new FakeServer();
});

describe('a full queue', () => {
  test('drops the oldest events but no report, and sends their number in a questlog_lost event', async () => {
    vi.stubGlobal('navigator', { onLine: false });
    const game = await server.start({ maxQueueBytes: 3_000 });
    const filed = game.report({ title: 'stuck' });
    for (let n = 1; n <= 100; n += 1) game.event('n', { n });
    const { dropped, queued } = game.counts;
    vi.stubGlobal('navigator', { onLine: true });
    expect(await game.flush()).toBe(true);

    const events = server.batches().flat();
    const remaining = events.filter(({ eventType }) => eventType === 'n').map(({ payload }) => payload);
    expect(dropped).toBeGreaterThan(50);
    expect(remaining).toEqual(Array.from({ length: 100 - dropped }, (_, i) => ({ n: dropped + i + 1 })));
    expect(events.filter(({ eventType }) => eventType !== 'n')).toMatchObject([
      { eventType: 'questlog_lost', payload: { dropped, uncertain: 0 } },
    ]);
    expect(new Set(events.map(({ sequence }) => sequence)).size).toBe(events.length);
    expect(queued).toBe(100 - dropped + 3);
    expect(await filed).toEqual(expect.any(String));
  });

  test('keeps a batch that may be stored already', async () => {
    const game = await server.start({ maxQueueBytes: 3_000 });
    await game.flush();
    server.next(networkFailure);
    game.event('tried');
    await game.flush();
    for (let n = 1; n <= 100; n += 1) game.event('n', { n });
    await advance(10 * 60_000);

    const [first, again] = server.batches();
    expect(again).toEqual(first);
    expect(game.counts).toMatchObject({ queued: 0, sent: 102 - game.counts.dropped });
  });

  test('rejects another report if it contains only reports', async () => {
    vi.stubGlobal('navigator', { onLine: false });
    const game = await server.start({ maxQueueBytes: 2_000 });
    void game.report({ title: 'stuck', description: 'x'.repeat(1_400) });

    await expect(game.report({ title: 'again', description: 'x'.repeat(1_400) })).rejects.toThrow(
      'the queue is full',
    );
  });
});

describe('an entry that is larger than the queue', () => {
  test.each([
    ['a report', (game: Game, description: string) => game.report({ title: 'stuck', description }), 0],
    ['an event', async (game: Game, x: string) => game.event('large', { x }), 1],
  ])('drops no other entry (%s)', async (_, note, dropped) => {
    vi.stubGlobal('navigator', { onLine: false });
    const game = await server.start({ maxQueueBytes: 3_000 });
    for (let n = 1; n <= 10; n += 1) game.event('n', { n });
    const noted = note(game, 'x'.repeat(5_000)).then(() => 'noted', String);
    vi.stubGlobal('navigator', { onLine: true });
    await game.flush();

    expect(await noted).toMatch(dropped === 0 ? 'the queue is full' : 'noted');
    const events = server.batches().flat();
    expect(events.filter(({ eventType }) => eventType === 'n').map(({ payload }) => payload)).toEqual(
      Array.from({ length: 10 }, (_none, i) => ({ n: i + 1 })),
    );
    expect(game.counts).toMatchObject({ dropped, sent: 10 + dropped });
    expect(server.losses()).toEqual(dropped === 0 ? [] : [{ kind: 'dropped', events: 1 }]);
  });
});

describe('consent', () => {
  test('nothing is sent or stored before consent if consent is required', async () => {
    const store = memoryStore();
    const game = await server.start({ consent: 'required', queue: store });
    game.event('a');
    await advance(DAY_MS);
    expect([server.sent, store.entries.size]).toEqual([[], 0]);

    game.consent(true);
    expect([...store.entries.values()].map(({ kind }) => kind)).toEqual(['session', 'event']);
    await game.flush();
    expect(game.counts).toMatchObject({ queued: 0, sent: 1 });
    expect(store.entries.size).toBe(0);
  });

  test('withdrawn consent empties the queue, and later events are not recorded', async () => {
    const store = memoryStore();
    const game = await server.start({ queue: store });
    await game.flush();
    game.event('a');
    game.consent(false);
    game.event('b');
    await advance(DAY_MS);

    expect(server.batches()).toEqual([]);
    expect(store.entries.size).toBe(0);
  });

  test('withdrawn consent empties the queue after the token was rejected, too', async () => {
    const store = memoryStore();
    server.next(rejected(401, 'unauthorized'));
    const game = await server.start({ queue: store });
    game.event('a');
    await game.flush();
    expect(store.entries.size).toBe(2);
    game.consent(false);
    game.event('b');

    expect(store.entries.size).toBe(0);
    game.consent(true);
    game.event('c');
    expect([...store.entries.values()].map(({ kind }) => kind)).toEqual(['session', 'event']);
    expect(server.sent.length).toBe(1);
  });

  test.each([
    ['consent(false)', (game: Game) => game.consent(false)],
    ['forget()', (game: Game) => game.forget()],
  ])('%s during the request of an upload URL cancels the upload', async (_, withdraw) => {
    const game = await server.start();
    await game.flush();
    server.next((sent) => {
      withdraw(game);
      return uploadTarget(sent);
    });
    const picture = game.upload(new Blob(['a face']), { attachmentType: 'screenshot', fileName: 'a.png' });

    await expect(picture).rejects.toThrow('without consent');
    expect(server.sent.filter(({ text }) => text === 'a file')).toEqual([]);
  });

  test('forget() clears the queue and starts a new session without a player', async () => {
    const store = memoryStore();
    const game = await server.start({ queue: store, player: { externalId: 'p' } });
    await game.flush();
    const before = game.sessionId;
    game.event('a');
    game.forget();
    game.event('b');
    await game.flush();

    expect(server.batches()).toMatchObject([[{ eventType: 'b', sequence: 1, sessionId: game.sessionId }]]);
    expect(game.sessionId).not.toBe(before);
    expect(server.sent.filter(({ text }) => text.includes('player')).length).toBe(1);
  });

  test('withdrawn consent stops a batch whose key is being stored', async () => {
    const store = memoryStore();
    const game = await server.start({ queue: store });
    await game.flush();
    const { promise, resolve } = Promise.withResolvers<void>();
    vi.spyOn(store, 'write').mockReturnValue(promise);
    game.event('a');
    void game.flush();
    await advance(0);
    game.consent(false);
    resolve();
    await advance(DAY_MS);

    expect(server.batches()).toEqual([]);
  });
});

describe('a persistent queue', () => {
  test('stores the key of a batch before the first attempt, and the next start uses the same key', async () => {
    const store = memoryStore();
    const killed = await server.start({ queue: store });
    await killed.flush();
    const { promise: never } = Promise.withResolvers<Response>();
    server.next(() => never);
    killed.event('a');
    killed.event('b');
    void killed.flush();
    await advance(0);
    const game = await server.start({ queue: memoryStore(store.entries) });
    game.event('c');
    await game.flush();

    const [first, again, ...others] = server.batches();
    expect(again).toEqual(first);
    expect(server.keys()[1]).toBe(server.keys()[0]);
    expect(others).toMatchObject([[{ eventType: 'c', sequence: 1, sessionId: game.sessionId }]]);
  });

  test('delays a batch until its key is stored', async () => {
    const store = memoryStore();
    const game = await server.start({ queue: store });
    await game.flush();
    const { promise, resolve } = Promise.withResolvers<void>();
    vi.spyOn(store, 'write').mockReturnValue(promise);
    game.event('a');
    const flushed = game.flush();
    await advance(1_000);
    expect(server.batches()).toEqual([]);
    resolve();
    await flushed;
    expect(server.batches()).toMatchObject([[{ eventType: 'a' }]]);
  });

  test('reports that it cannot be read or written, and continues in memory', async () => {
    const unreadable = { ...memoryStore(), open: () => Promise.reject(new Error('forbidden')) };
    const unwritable = { ...memoryStore(), write: () => Promise.reject(new Error('disk full')) };
    for (const queue of [unreadable, unwritable]) {
      const game = await server.start({ queue });
      game.event('a');
      await game.flush();
      expect(game.counts).toMatchObject({ queued: 0, sent: 1 });
    }
    expect(JSON.stringify(server.problems)).toMatch(/not_opened.*forbidden.*not_written.*disk full/);
  });
});
