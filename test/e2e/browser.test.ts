/** Tests a web game in a real Chromium. A page of another origin follows `docs/games/web.md` and can read every answer. */
import { once } from 'node:events';
import { createServer } from 'node:http';
import { STREAM_LIMITS } from '@questlog/ingest/linkedEvents/streams';
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { codeOf, exampleOf } from '../games/gamePages.ts';
import { events, eventually, type ListedEvent, type TestProject } from './builders.ts';
import { describeInChromium, launchChromium } from './chromium.ts';
import { ownProduct, sharedProduct } from './sharedProduct.ts';

const QUESTLOG_JS = exampleOf('web-single-file/questlog.js');
const [GAME_JS = ''] = codeOf('web.md', 'js');
const site = await aSite();

describeInChromium('a page of another origin', () => {
  const shared = sharedProduct();
  /** A product that allows the origin of `site` with the host 127.0.0.1, but not with the host localhost. */
  const restricted = ownProduct({ env: { QUESTLOG_CORS_ORIGINS: `https://game.example, ${site.origin}` } });
  let browser: Browser;
  let game: TestProject;

  beforeAll(async () => {
    browser = await launchChromium();
    game = await shared.aProject({ revision: 'B' });
  });
  afterAll(async () => {
    await browser?.close();
    site.close();
  });

  test('follows the docs page: the session, events, picture, and report are stored and linked', async () => {
    const page = await open(game.token, shared.product.credentials);
    const made = page.waitForResponse((response) => response.url().endsWith('/v1/ingest/uploads'));
    const filed = page.waitForResponse((response) => response.url().endsWith('/v1/ingest/reports'));
    await page.addScriptTag({ url: 'game.js', type: 'module' });
    const answer = await filed;
    const report: { id: string } = await answer.json();

    expect(answer.status()).toBe(201);
    const linked = await eventually(
      async (): Promise<ListedEvent[]> =>
        (await game.get(`/v1/reports/${report.id}/events`)).json().events ?? [],
      (events) => events.length > 0,
    );
    const { uploadId }: { uploadId: string } = await (await made).json();
    const picture = await game.get(`/v1/uploads/${uploadId}`);
    expect(picture.bytes.toString('latin1')).toMatch(/^\x89PNG/);
    expect((await game.get(`/v1/reports/${report.id}`)).json()).toMatchObject({
      report: { title: 'Stuck in a wall' },
      attachments: [{ uploadId, state: 'stored', sizeBytes: picture.bytes.length }],
    });
    expect(linked).toMatchObject([{ eventType: 'checkpoint', payload: { level: 3 } }]);
  });

  test('keeps a rate-limited batch and sends it again', async () => {
    const limited = await shared.aProject({ revision: 'B' });
    const limit = (limits: object | null) =>
      shared.product.admin('PATCH', `/admin/projects/${limited.projectId}`, { limits });
    const page = await open(limited.token, shared.product.credentials);
    await limit({ eventsPerSecond: 1, burstSeconds: 1 });
    await limited.post(events(200));
    const play = `const { begin, record, flush } = await import('./questlog.js');
      await begin('1.4.2');
      record('kept');
      globalThis.flush = flush;
      return await flush().catch(({ status }) => status);`;

    expect(await inPage(page, play)).toBe(429);
    await limit(null);
    await inPage(page, 'await flush()');
    const kept = (await limited.get('/v1/events?eventType=kept')).json().events;
    expect(kept).toMatchObject([{ eventType: 'kept' }]);
  });

  test('stores the valid events of a batch, and drops and logs the rejected events', async () => {
    const page = await open(game.token, shared.product.credentials);
    const errors: string[] = [];
    page.on('console', (message) => message.type() === 'error' && errors.push(message.text()));
    const play = `const { begin, record, flush } = await import('./questlog.js');
      await begin('1.4.2');
      for (const payload of [{}, 7]) record('half valid', payload);
      await flush();
      record('half valid', 7);
      await flush();`;

    await inPage(page, play);
    expect((await game.get('/v1/events?eventType=half%20valid')).json().events).toHaveLength(1);
    expect(errors).toHaveLength(2);
    expect(errors).toEqual(
      errors.map(() => expect.stringMatching(/^Questlog rejected 1 events:.*field_type/)),
    );
  });

  test.each([
    [404, JSON.stringify({ type: 'urn:questlog:problem:not_found', code: 'not_found', message: 'not here' })],
    [401, JSON.stringify({ type: 'urn:questlog:problem:unauthorized', code: 'unauthorized' })],
    [413, '{"error":"of a proxy"}'],
  ])('keeps a batch after a %i for a wrong token or from a proxy or another server', async (status, body) => {
    const page = await open(game.token, shared.product.credentials);
    const headers = { 'Access-Control-Allow-Origin': '*' };
    await page.route('**/v1/ingest/events', (route) => route.fulfill({ status, headers, body }));
    const play = `const { begin, record, flush } = await import('./questlog.js');
      await begin('1.4.2');
      record('kept ${status}');
      globalThis.flush = flush;
      return await flush().catch((error) => error.status);`;

    expect(await inPage(page, play)).toBe(status);
    await page.unroute('**/v1/ingest/events');
    await inPage(page, 'await flush()');
    const kept = (await game.get(`/v1/events?eventType=kept%20${status}`)).json().events;
    expect(kept).toHaveLength(1);
  });

  test('files a report once, also if its picture is rejected and the answer is lost', async () => {
    const page = await open(game.token, shared.product.credentials);
    const play = `const { begin, report } = await import('./questlog.js');
      await begin('1.4.2');
      const id = crypto.randomUUID();
      const file = () => report('No picture', new Blob(['text'], { type: 'text/plain' }), id);
      return [await file(), await file()].map((filed) => filed.id);`;

    const [first, second] = (await inPage(page, play)) as string[];
    expect(second).toBe(first);
    expect((await game.get(`/v1/reports/${first}`)).json()).toMatchObject({
      report: { title: 'No picture' },
      attachments: [],
    });
  });

  test('reads the reason of a rejection: a body that is too large, too many streams', async () => {
    const { baseUrl } = shared.product.credentials;
    const page = await open(game.token, shared.product.credentials);
    await takeAllStreams(baseUrl, game.token);
    const ask = (path: string, init: string): Promise<unknown> =>
      inPage(
        page,
        `const headers = { Authorization: 'Bearer ${game.token}', 'Content-Type': 'application/json' };
         const answer = await fetch('${baseUrl}${path}', { headers, ...${init} });
         const { code, message } = await answer.json();
         return { status: answer.status, retryAfter: answer.headers.get('Retry-After'), code, message };`,
      );

    expect(
      await ask('/v1/ingest/events', `{ method: 'POST', body: 'x'.repeat(9 * 1024 * 1024) }`),
    ).toMatchObject({ status: 413, code: 'body_too_large', message: expect.stringContaining('8388608') });
    expect(await ask('/v1/linked-events', '{}')).toMatchObject({
      ...{ status: 503, code: 'unavailable', retryAfter: '10' },
      message: expect.stringContaining('linked-event streams'),
    });
  });

  test('is allowed only if QUESTLOG_CORS_ORIGINS lists its origin', async () => {
    const { token } = restricted.product.credentials;
    const begin = `const { begin } = await import('./questlog.js');
      return await begin('1.4.2').then(() => 'begun', String);`;
    const listed = await open(token, restricted.product.credentials);
    const other = await open(token, restricted.product.credentials, 'localhost');

    expect(await inPage(listed, begin)).toBe('begun');
    expect(await inPage(other, begin)).toBe('TypeError: Failed to fetch');
  });

  /** Opens a page of the site. The `questlog.js` of the page contains the given address and token. */
  async function open(token: string, { baseUrl }: { baseUrl: string }, host = '127.0.0.1'): Promise<Page> {
    const page = await browser.newPage();
    onTestFinished(() => page.close());
    await page.goto(site.publish({ url: baseUrl, token }).replace('127.0.0.1', host));
    return page;
  }
});

/** Starts a server for the files of the game. The page sends requests for Questlog directly to the product. */
async function aSite() {
  const games: string[] = [];
  const server = createServer((request, response) => {
    const [, game = '', file] = request.url?.split('/') ?? [];
    const code = file === 'questlog.js' ? games[Number(game)] : file === 'game.js' ? GAME_JS : undefined;
    response.setHeader('Content-Type', code === undefined ? 'text/html' : 'text/javascript');
    response.end(code ?? '<!doctype html><title>A game</title><canvas></canvas>');
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const address = server.address();
  const origin = `http://127.0.0.1:${typeof address === 'object' ? address?.port : 0}`;
  return {
    origin,
    /** Adds a page with these settings. Returns the URL of the page. */
    publish: (settings: { url: string; token: string }): string => {
      const code = QUESTLOG_JS.replace(
        /^const (url|token) = .*$/gm,
        (_, name: keyof typeof settings) => `const ${name} = '${settings[name]}';`,
      );
      return `${origin}/${games.push(code) - 1}/`;
    },
    close: () => void server.close(),
  };
}

/** Opens the maximum number of linked-event streams of a project. The streams close at the end of the test. */
async function takeAllStreams(baseUrl: string, token: string): Promise<void> {
  const headers = { Authorization: `Bearer ${token}` };
  const opening = Array.from({ length: STREAM_LIMITS.maxStreamsOfProject }, () =>
    fetch(`${baseUrl}/v1/linked-events?from=end`, { headers }),
  );
  const streams = await Promise.all(opening);
  // Keeps a reference to the streams, because garbage collection would close streams without a reference.
  onTestFinished(() => Promise.all(streams.map(({ body }) => body?.cancel())).then(() => {}));
}

/** @param code the body of an async function. */
async function inPage(page: Page, code: string): Promise<unknown> {
  return await page.evaluate(`(async () => { ${code} })()`);
}
