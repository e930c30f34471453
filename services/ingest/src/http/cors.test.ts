/** Tests the setting and its effect on a response. `test/e2e` tests every path. */
import { once } from 'node:events';
import { createServer } from 'node:http';
import { silentLogger } from '@questlog/runtime/process/logger';
import { createMetricsRegistry } from '@questlog/runtime/process/metrics';
import { describe, expect, onTestFinished, test } from 'vitest';
import { ingestMetrics } from '../metrics.ts';
import { allowedOrigins } from './cors.ts';
import { type PublicAppDeps, publicApp } from './publicApp.ts';

describe('QUESTLOG_CORS_ORIGINS', () => {
  test.each([
    ['*', '*'],
    ['', []],
    ['off', []],
    ['https://game.example', ['https://game.example']],
    ['https://Game.Example:443/, http://localhost:3000', ['https://game.example', 'http://localhost:3000']],
    ['capacitor://localhost', ['capacitor://localhost']],
  ])('%j', (setting, origins) => {
    expect(allowedOrigins(setting)).toEqual(origins);
  });

  test.each([
    'game.example',
    'https://game.example/play',
    'https://*.example',
    '*, https://game.example',
    'https://a.example,',
    'https://user@game.example',
    'https://game.example?x',
    'null',
    'On',
  ])('rejects a value that is not a list of origins: %s', (setting) => {
    expect(() => allowedOrigins(setting)).toThrow('QUESTLOG_CORS_ORIGINS');
  });
});

describe('with a list of origins', () => {
  test('a listed page can read the response, others cannot, and caches distinguish them', async () => {
    const ask = await aListener('https://game.example,https://other.example');
    const answers = [
      await ask('GET', { Origin: 'https://other.example' }),
      await ask('GET', { Origin: 'https://evil.example' }),
      await ask('GET', {}),
    ];

    expect(answers.map((headers) => headers.get('access-control-allow-origin'))).toEqual([
      'https://other.example',
      null,
      null,
    ]);
    expect(answers.map((headers) => headers.get('vary'))).toEqual(['Origin', 'Origin', 'Origin']);
  });

  test('a preflight returns the methods, and a listed origin', async () => {
    const ask = await aListener('https://game.example');
    const preflight = { 'Access-Control-Request-Method': 'PUT' };
    const known = await ask('OPTIONS', { ...preflight, Origin: 'https://game.example' });
    const other = await ask('OPTIONS', { ...preflight, Origin: 'https://game.example.evil.example' });

    expect(known.get('access-control-allow-origin')).toBe('https://game.example');
    expect(known.get('access-control-allow-methods')).toContain('PUT');
    expect(other.get('access-control-allow-origin')).toBeNull();
  });
});

test('off sends no CORS headers', async () => {
  const ask = await aListener('off');
  for (const method of ['GET', 'OPTIONS']) {
    const headers = await ask(method, {
      Origin: 'https://game.example',
      'Access-Control-Request-Method': 'GET',
    });
    expect([...headers.keys()].filter((name) => /^access-control|^vary$/.test(name))).toEqual([]);
  }
});

async function aListener(setting: string) {
  // The requests of this test do not reach the routes.
  const deps = {
    corsOrigins: allowedOrigins(setting),
    defaultRevision: 'A',
    logger: silentLogger,
    metrics: ingestMetrics(createMetricsRegistry()),
    uploads: {},
    rejections: { record: () => undefined },
    unauthenticated: { count: () => undefined },
  };
  const app = publicApp(deps as unknown as PublicAppDeps);
  const server = createServer(app.callback()).listen(0, '127.0.0.1');
  onTestFinished(() => void server.close());
  await once(server, 'listening');
  const address = server.address();
  const port = typeof address === 'object' ? address?.port : 0;
  return async (method: string, headers: Record<string, string>): Promise<Headers> =>
    (await fetch(`http://127.0.0.1:${port}/v1/quota`, { method, headers })).headers;
}
