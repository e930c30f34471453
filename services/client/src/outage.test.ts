/** Tests that the client reports an unreachable server or a wrong server with the reason, at a limited rate. */
import { once } from 'node:events';
import { createServer, type RequestListener } from 'node:http';
import { beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import { start } from './client.ts';
import { accepted, advance, FakeServer, networkFailure, useFakedClock } from './testing/fakeServer.ts';

const MINUTE_MS = 60_000;

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
      /^cannot reach https.*: .*(SSL|EPROTO).*must start with http:\/\//,
    ],
    ['a name that does not exist', async () => 'http://questlog.invalid', /: (ENOTFOUND|EAI_AGAIN)/],
    ['a server that hangs up', async () => listening((_, answer) => answer.destroy()), /: UND_ERR_SOCKET/],
    [
      'a proxy that answers HTML',
      async () => listening(html(200)),
      /answers 200 text\/html, which is not a response from Questlog/,
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

describe('with a clock', () => {
  let server: FakeServer;
  useFakedClock();
  beforeEach(() => {
    server = new FakeServer();
  });

  test('reports an outage at once, then at most once a minute, and its end with the number of entries that waited', async () => {
    let isOut = true;
    server.always((sent) => (isOut ? networkFailure(sent) : accepted(sent)));
    const game = await server.start();
    game.event('a');
    await advance(0);
    expect(server.problems).toMatchObject([
      { kind: 'unreachable', message: expect.stringMatching(/fetch failed.*2 entries in the queue/) },
    ]);
    await advance(10 * MINUTE_MS);
    const during = server.problems.length;
    expect(during).toBeGreaterThan(4);
    expect(during).toBeLessThan(12);
    isOut = false;
    await advance(2 * MINUTE_MS);

    expect(server.problems.slice(during)).toEqual([
      { kind: 'reached', message: expect.stringMatching(/again after 6\d\d s; 2 entries waited/) },
    ]);
    expect(game.counts).toMatchObject({ queued: 0, sent: 1 });
  });

  test('reports a server that fails every second request at most once a minute', async () => {
    let requests = 0;
    server.always((sent) => (requests++ % 2 === 0 ? networkFailure(sent) : accepted(sent)));
    const game = await server.start();
    for (let n = 0; n < 60; n += 1) {
      game.event('n');
      await advance(5_000);
    }
    const reported = server.problems.filter(({ kind }) => kind === 'unreachable');
    expect(reported.length).toBeGreaterThan(1);
    expect(reported.length).toBeLessThan(7);
  });

  test('reports that a page is offline, and later that it is online again', async () => {
    vi.stubGlobal('navigator', { onLine: false });
    const game = await server.start();
    await game.flush();
    vi.stubGlobal('navigator', { onLine: true });
    await game.flush();

    expect(server.problems).toMatchObject([{ kind: 'unreachable', code: 'offline' }, { kind: 'reached' }]);
  });
});

/** Starts a server that runs until the end of the test. @returns the base address of the server. */
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
