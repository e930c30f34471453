/** Adds a span to each sampled request of a listener. */
import type { RequestListener } from 'node:http';
import { type Operations, routeOf } from '@questlog/schemas/http/operations/operation';
import type { Tracing } from './tracing.ts';

/** Returns the handler unchanged if tracing is off. */
export function traceRequests(
  tracing: Tracing | undefined,
  operations: Operations,
  handler: RequestListener,
): RequestListener {
  if (tracing === undefined) return handler;
  const paths = Object.values(operations).map((operation) => routeOf(operation).path);
  return (request, response) => {
    const { method = '_OTHER', url = '', headers } = request;
    const { traceparent } = headers;
    const span = tracing.startRequest(METHODS.has(method) ? method : '_OTHER', traceparent?.toString());
    if (span === undefined) return handler(request, response);
    response.once('close', () => {
      const route = paths.find((path) => matches(path, url));
      span.end(route, response.headersSent ? response.statusCode : undefined);
    });
    span.run(() => handler(request, response));
  };
}

/** Returns true if the URL has the path of a route such as `/v1/events/{id}`. */
function matches(path: string, url: string): boolean {
  const parts = url.split('?', 1)[0]?.split('/') ?? [];
  const expected = path.split('/');
  return (
    parts.length === expected.length &&
    expected.every((part, i) => (part.startsWith('{') ? parts[i] !== '' : part === parts[i]))
  );
}

/** HTTP methods that are listed in OpenTelemetry's semantic conventions. */
const METHODS = new Set([
  'CONNECT',
  'DELETE',
  'GET',
  'HEAD',
  'OPTIONS',
  'PATCH',
  'POST',
  'PUT',
  'QUERY',
  'TRACE',
]);
