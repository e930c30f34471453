/** Tests the files of GET /docs and a listener without the page. An end-to-end test opens the page in a browser. */
import { once } from 'node:events';
import { createServer } from 'node:http';
import { silentLogger } from '@questlog/runtime/process/logger';
import { createMetricsRegistry } from '@questlog/runtime/process/metrics';
import { expect, onTestFinished, test } from 'vitest';
import { ingestMetrics } from '../../metrics.ts';
import { type PublicAppDeps, publicApp } from '../publicApp.ts';

test('serves the page and its files, and answers 304 if the browser has them', async () => {
  const ask = await aListener(true);
  const page = await ask('/docs');
  const html = await page.text();
  const named = [...html.matchAll(/(?:src|href)="(\/[^"]+)"/g)].map(([, path]) => path ?? '');

  expect(page.headers.get('content-security-policy')).toMatch(/default-src 'none'.*frame-ancestors 'none'/);
  expect(named.length).toBe(3);
  for (const path of named) {
    const plain = await ask(path, { 'Accept-Encoding': 'identity' });
    const zipped = await ask(path, { 'Accept-Encoding': 'gzip' });
    const again = await ask(path, {
      'If-None-Match': zipped.headers.get('etag') ?? '',
      // Without this header, the client would request the complete file again.
      'Cache-Control': 'max-age=0',
    });

    expect([path, plain.status, zipped.status, again.status]).toEqual([path, 200, 200, 304]);
    expect(zipped.headers.get('content-encoding')).toBe('gzip');
    expect(zipped.headers.get('x-content-type-options')).toBe('nosniff');
    expect(await zipped.text()).toBe(await plain.text());
  }
  expect((await ask('/docs/constructor')).status).toBe(404);
});

test('redirects a browser from / to the page, and answers a game with a 404', async () => {
  const ask = await aListener(true);
  const toBrowser = await ask('/', { Accept: 'text/html,application/xhtml+xml,*/*;q=0.8' });
  const toGame = await ask('/');

  expect([toBrowser.status, toBrowser.headers.get('location')]).toEqual([302, '/docs']);
  expect([toGame.status, JSON.parse(await toGame.text())]).toEqual([
    404,
    expect.objectContaining({ code: 'not_found', detail: expect.stringContaining('/docs') }),
  ]);
});

test('a listener without the page answers 404', async () => {
  const ask = await aListener(false);

  for (const path of ['/', '/docs', '/docs/docsUi.js'])
    expect([path, (await ask(path)).status]).toEqual([path, 404]);
});

async function aListener(hasDocs: boolean) {
  // `deps` has only the parts of the service that the requests of this test use.
  const metrics = ingestMetrics(createMetricsRegistry());
  const deps = {
    hasDocs,
    corsOrigins: '*',
    defaultRevision: 'A',
    logger: silentLogger,
    metrics,
    uploads: {},
    rejections: { record: () => undefined },
    unauthenticated: { count: () => undefined },
    received: [],
  };
  const server = createServer(publicApp(deps as unknown as PublicAppDeps).callback()).listen(0, '127.0.0.1');
  onTestFinished(() => void server.close());
  await once(server, 'listening');
  const address = server.address();
  const port = typeof address === 'object' ? address?.port : 0;
  return (path: string, headers: Record<string, string> = {}): Promise<Response> =>
    fetch(`http://127.0.0.1:${port}${path}`, { headers, redirect: 'manual' });
}
