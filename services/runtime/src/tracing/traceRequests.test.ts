import { once } from 'node:events';
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { InMemorySpanExporter, SimpleSpanProcessor } from '@opentelemetry/sdk-trace';
import type { Operations } from '@questlog/schemas/http/operations/operation';
import { expect, onTestFinished, test } from 'vitest';
import { tracingTo } from './openTelemetry.ts';
import { traceRequests } from './traceRequests.ts';

const OPERATIONS: Operations = {
  list: { route: 'GET /v1/players', summary: '', responses: {} },
  read: { route: 'GET /v1/players/{externalId}/sessions', summary: '', responses: {} },
};

test.each([
  ['/v1/players/player-4711/sessions?limit=1', 200, 'GET /v1/players/{externalId}/sessions'],
  ['/v1/players', 503, 'GET /v1/players'],
  ['/v1/players/player-4711', 404, 'GET'],
])('the span of %s contains no id', async (path, status, name) => {
  const span = await spanOf(path, (_, response) => response.writeHead(status).end());
  expect(span.name).toBe(name);
  expect(span.attributes['http.response.status_code']).toBe(status);
  expect(span.attributes['error.type']).toBe(status === 503 ? '503' : undefined);
  expect(JSON.stringify(span.attributes)).not.toContain('4711');
});

test('a request whose client leaves before the response has an error and no status', async () => {
  const span = await spanOf('/v1/players', (request) => request.socket.destroy());
  expect(span.attributes).not.toHaveProperty('http.response.status_code');
  expect(span.attributes['error.type']).toBe('aborted');
});

async function spanOf(path: string, handler: RequestListener) {
  const exporter = new InMemorySpanExporter();
  const options = { ratio: 1, isParentBased: false, trustsSampling: false };
  const tracing = tracingTo(options, new SimpleSpanProcessor({ exporter }));
  const server = createServer(traceRequests(tracing, OPERATIONS, handler));
  await once(server.listen(0, '127.0.0.1'), 'listening');
  onTestFinished(() => void server.close());
  await fetch(`http://127.0.0.1:${(server.address() as AddressInfo).port}${path}`).catch(() => undefined);
  const [span] = await expect
    .poll(() => exporter.getFinishedSpans())
    .toHaveLength(1)
    .then(() => exporter.getFinishedSpans());
  if (span === undefined) throw new Error('there is no span');
  return span;
}
