/** A server that is not there, is another one, or does not answer: the game is told, and no entry is lost. */
import { once } from 'node:events';
import { createServer, type RequestListener } from 'node:http';
import { afterEach, beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import type { GameOptions } from './client.ts';
import { start } from './client.ts';
import { bare, FakeServer, json, lost, pass, refused, stored } from './testing/fakeServer.ts';
import { aStore } from './testing/memoryStore.ts';

const A_MINUTE_MS = 60_000;

describe('the first request that fails is reported with its reason', () => {
  test.each([
    ['a port that nothing listens on', async () => closedPort(), /^cannot reach http.*: ECONNREFUSED/],
    [
      'a port that fetch does not allow',
      async () => 'http://127.0.0.1:9',
      /^cannot reach http.*:9: bad port/,
    ],
    [
      'https on an HTTP port',
      async () => (await listening(html(200))).replace('http:', 'https:'),
      /^cannot reach https.*: .*(SSL|EPROTO).*is http:\/\/ meant/,
    ],
    ['a name that does not exist', async () => 'http://questlog.invalid', /: (ENOTFOUND|EAI_AGAIN)/],
    ['a server that hangs up', async () => listening((_, answer) => answer.destroy()), /: UND_ERR_SOCKET/],
    [
      'a proxy that answers HTML',
      async () => listening(html(200)),
      /answers 200 text\/html, which is not an answer of Questlog/,
    ],
    [
      'a redirect to another server',
      async () => {
        const target = await listening(html(404));
        return listening((_, answer) => void answer.writeHead(301, { Location: `${target}/x` }).end());
      },
      /answers 404 text\/html.*redirected to http:\/\/127\.0\.0\.1:\d+\/x/,
    ],
  ])('%s', async (_, urlOf, message) => {
    const problems: unknown[] = [];
    const game = await start({
      url: await urlOf(),
      token: 'a-token',
      onProblem: (problem) => void problems.push(problem),
    });
    expect(await game.flush()).toBe(false);
    await vi.waitFor(() => expect(problems.length).toBe(1));

    expect(problems).toEqual([
      { kind: 'unreachable', code: expect.any(String), message: expect.stringMatching(message) },
    ]);
    expect(game.counts).toMatchObject({ queued: 1, refused: 0 });
    await game.end();
  });
});

describe('end()', () => {
  test('returns within its limit while the server accepts and never answers, and keeps the rest', async () => {
    const store = aStore();
    const game = await start({
      ...{ url: await listening(() => {}), token: 'a-token', queue: store },
      endWithinMs: 100,
    });
    game.event('a');
    const began = performance.now();
    expect(await game.end()).toBe(false);

    expect(performance.now() - began).toBeLessThan(1_000);
    expect([...store.entries.values()].map(({ kind }) => kind)).toEqual(['session', 'event']);
    expect(store.isClosed).toBe(true);
  });
});

describe('with a clock', () => {
  let server: FakeServer;
  beforeEach(() => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'Date', 'performance'] });
    vi.stubGlobal('CompressionStream', undefined);
    server = new FakeServer();
  });
  afterEach(() => {
    vi.useRealTimers();
    vi.unstubAllGlobals();
  });

  test('an outage is reported at once, then at most once a minute, and its end with what waited', async () => {
    let isOut = true;
    server.always((sent) => (isOut ? lost(sent) : stored(sent)));
    const game = await server.start();
    game.event('a');
    await pass(0);
    expect(server.problems).toMatchObject([
      { kind: 'unreachable', message: expect.stringMatching(/fetch failed.*2 entries in the queue/) },
    ]);
    await pass(10 * A_MINUTE_MS);
    const during = server.problems.length;
    expect(during).toBeGreaterThan(4);
    expect(during).toBeLessThan(12);
    isOut = false;
    await pass(2 * A_MINUTE_MS);

    expect(server.problems.slice(during)).toEqual([
      { kind: 'reached', message: expect.stringMatching(/again after 6\d\d s; 2 entries waited/) },
    ]);
    expect(game.counts).toMatchObject({ queued: 0, sent: 1 });
  });

  test('a server that fails every other time is reported at most once a minute', async () => {
    let requests = 0;
    server.always((sent) => (requests++ % 2 === 0 ? lost(sent) : stored(sent)));
    const game = await server.start();
    for (let n = 0; n < 60; n += 1) {
      game.event('n');
      await pass(5_000);
    }
    const told = server.problems.filter(({ kind }) => kind === 'unreachable');
    expect(told.length).toBeGreaterThan(1);
    expect(told.length).toBeLessThan(7);
  });

  test.each([
    ['not_found', refused(404, 'not_found'), /answers 404 not_found: it is not_found/],
    ['method_not_allowed', refused(405, 'method_not_allowed'), /405/],
    ['misdirected_request', refused(421, 'misdirected_request'), /421/],
    ['unsupported_media_type', refused(415, 'unsupported_media_type'), /415/],
    ['unavailable', refused(503, 'unavailable'), /503 unavailable: it is unavailable/],
    ['not_questlog', bare(404), /404/],
    ['not_questlog', bare(401), /401/],
    ['not_questlog', bare(403), /403/],
    ['not_questlog', bare(405), /405/],
    ['not_questlog', bare(407), /407/],
    ['not_questlog', bare(413), /413/],
    ['not_questlog', bare(415), /415/],
    ['not_questlog', bare(200), /200/],
    ['not_questlog', () => json(400, { code: 'invalid_request', message: 'of another API' }), /400/],
  ])(
    'an answer that refuses no entry (%s) keeps those of this run and of an earlier one',
    async (code, answer, message) => {
      const before = await server.start({ queue: aStore() });
      await before.flush();
      const store = aStore();
      server.always(lost);
      const earlier = await server.start({ queue: store });
      earlier.event('earlier');
      void earlier.report({ title: 'stuck' });
      await earlier.end();
      server.problems.length = 0;
      server.always(answer);
      const kept = aStore(store.entries);
      const game = await server.start({ queue: kept });
      game.event('later');
      void game.report({ title: 'again' });
      await pass(90 * A_MINUTE_MS);

      expect(game.counts).toMatchObject({ queued: 6, refused: 0, dropped: 0, uncertain: 0 });
      expect(kept.entries.size).toBe(6);
      expect(server.problems[0]).toMatchObject({
        kind: 'unreachable',
        code,
        message: expect.stringMatching(message),
      });
    },
  );

  test('a page that is offline reports it, and is online again', async () => {
    vi.stubGlobal('navigator', { onLine: false });
    const game = await server.start();
    await game.flush();
    vi.stubGlobal('navigator', { onLine: true });
    await game.flush();

    expect(server.problems).toMatchObject([{ kind: 'unreachable', code: 'offline' }, { kind: 'reached' }]);
  });

  test('a report that a proxy refuses stays, and holds up nothing behind it', async () => {
    server.always((sent) => (sent.path.endsWith('/reports') ? bare(403)(sent) : stored(sent)));
    const game = await server.start();
    void game.report({ title: 'stuck' });
    await pass(0);
    game.event('a');
    await pass(10_000);
    expect(game.counts).toMatchObject({ queued: 1, sent: 1, refused: 0 });
    expect(await game.flush()).toBe(false);
    await pass(10 * A_MINUTE_MS);
    const tries = server.sent.filter(({ path }) => path.endsWith('/reports')).length;
    expect(tries).toBeGreaterThan(5);
    expect(tries).toBeLessThan(13);
    server.always(stored);
    await pass(2 * A_MINUTE_MS);

    expect(game.counts).toMatchObject({ queued: 0, refused: 0 });
  });

  test('an event that is too large for a proxy stays, and holds up nothing behind it', async () => {
    server.always((sent) => (sent.text.includes('large') ? bare(413)(sent) : stored(sent)));
    const game = await server.start();
    await game.flush();
    for (const name of ['a', 'b', 'large', 'c', 'd']) game.event(name);
    await pass(A_MINUTE_MS);

    expect(game.counts).toMatchObject({ queued: 1, sent: 4, refused: 0 });
    server.always(stored);
    await pass(2 * A_MINUTE_MS);
    expect(game.counts).toMatchObject({ queued: 0, sent: 5 });
  });

  test('end() returns within 2 s while each answer takes 3 s, and keeps what has not left', async () => {
    const store = aStore();
    server.always(async (sent) => {
      await new Promise((resolve) => setTimeout(resolve, 3_000));
      return stored(sent);
    });
    const game = await server.start({ queue: store });
    for (let n = 0; n < 2_000; n += 1) game.event('n', { n });
    const ended = game.end();
    await pass(2_000);

    expect(await Promise.race([ended, 'still waits'])).toBe(false);
    expect(store.entries.size).toBe(2_001);
    const requests = server.sent.length;
    await pass(A_MINUTE_MS);
    expect(server.sent.length).toBe(requests);
    expect(server.problems).toEqual([]);
  });

  test('end() aborts an upload', async () => {
    server.always(({ signal }) => new Promise((_, reject) => signal.addEventListener('abort', reject)));
    const game = await server.start();
    const named = { attachmentType: 'log_bundle', fileName: 'a.log' } as const;
    const file = game.upload(new Blob(['a log']), named).catch(String);
    const ended = game.end();
    await pass(2_000);

    expect(await ended).toBe(false);
    expect(await file).toMatch('the file was not sent');
  });
});

describe('start() names the option that is wrong', () => {
  test.each<[string, object]>([
    ['url', { url: undefined }],
    ['url', { url: 'hello' }],
    ['url', { url: '127.0.0.1:8080' }],
    ['url', { url: 'localhost:8080' }],
    ['url', { url: 'ftp://telemetry.example' }],
    ['url', { url: 'https://user:secret@telemetry.example' }],
    ['url', { url: 'https://telemetry.example/?game=1' }],
    ['url', { url: new URL('https://telemetry.example') }],
    ['token', { token: undefined }],
    ['token', { token: '' }],
    ['token', { token: 'a token' }],
    ['token', { token: 'a-token\n' }],
    ['token', { token: 7 }],
    ['build', { build: '1.4.2' }],
    ['build.platform', { build: { version: '1.4.2' } }],
    ['build.version', { build: { version: 142, platform: 'Web' } }],
    ['build.version', { build: { version: '', platform: 'Web' } }],
    ['build.gitCommit', { build: { version: '1', platform: 'Web', gitCommit: 7 } }],
    ['build.channel', { build: { version: '1', platform: 'Web', channel: 'production' } }],
    ['player', { player: 'player-17' }],
    ['player.externalId', { player: { externalId: 17 } }],
    ['player.deviceId', { player: { deviceId: {} } }],
    ['metadata', { metadata: ['a'] }],
    ['consent', { consent: true }],
    ['queue.open', { queue: {} }],
    ['maxQueueBytes', { maxQueueBytes: '4 MiB' }],
    ['maxBatchEvents', { maxBatchEvents: 0 }],
    ['maxBatchEvents', { maxBatchEvents: 501 }],
    ['flushIntervalMs', { flushIntervalMs: Number.NaN }],
    ['endWithinMs', { endWithinMs: -1 }],
    ['onProblem', { onProblem: 'console' }],
    ['fetch', { fetch: 'fetch' }],
  ])('%s: %j', async (name, wrong) => {
    const options = { url: 'https://telemetry.example', token: 'a-token', ...wrong } as GameOptions;
    await expect(start(options)).rejects.toThrow(new RegExp(`^start: ${name.replace('.', '\\.')} `));
  });

  test('and no option at all', async () => {
    await expect(start(undefined as unknown as GameOptions)).rejects.toThrow('start: options ');
  });
});

/** @returns the base address of a server that this test ends. */
async function listening(answer: RequestListener): Promise<string> {
  const server = createServer(answer);
  await once(server.listen(0, '127.0.0.1'), 'listening');
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return addressOf(server);
}

async function closedPort(): Promise<string> {
  const server = createServer();
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const url = addressOf(server);
  await new Promise((closed) => server.close(closed));
  return url;
}

function addressOf(server: ReturnType<typeof createServer>): string {
  const address = server.address();
  return `http://127.0.0.1:${typeof address === 'object' ? address?.port : 0}`;
}

function html(status: number): RequestListener {
  return (request, answer) => {
    request.resume();
    answer.writeHead(status, { 'Content-Type': 'text/html; charset=utf-8' }).end('<h1>Sign in</h1>');
  };
}
