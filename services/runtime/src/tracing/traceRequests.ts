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
  const routes = Object.values(operations).map((operation) => {
    const { path } = routeOf(operation);
    return { path, pattern: new RegExp(`^${path.replaceAll(/\{\w+\}/g, '[^/]+')}(\\?|$)`) };
  });
  return (request, response) => {
    const { method = '_OTHER', url = '', headers } = request;
    const { traceparent } = headers;
    const span = tracing.startRequest(METHODS.has(method) ? method : '_OTHER', traceparent?.toString());
    if (span === undefined) return handler(request, response);
    response.once('close', () => {
      const route = routes.find(({ pattern }) => pattern.test(url));
      span.end(route?.path, response.headersSent ? response.statusCode : undefined);
    });
    span.run(() => handler(request, response));
  };
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
