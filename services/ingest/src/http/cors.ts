/** CORS for the games' listener (Fetch, section 3.2): response headers and preflights. */
import { StartRefused } from '@questlog/runtime/process/errors';
import type { Middleware } from 'koa';

/**
 * Origins whose pages are allowed. `*` allows every origin, which is safe because the listener uses no cookies. An empty list
 * allows no origin.
 */
export type AllowedOrigins = '*' | readonly string[];

/** @throws StartRefused if the setting is not `*`, `off`, or a list of origins. */
export function allowedOrigins(setting: string): AllowedOrigins {
  const text = setting.trim();
  if (text === '*') return text;
  if (text === '' || text === 'off') return [];
  return text.split(',').map((each) => originOf(each.trim()));
}

/** Returns the origin as browsers send it. Custom schemes are allowed, because the web view of an app can have one. */
function originOf(text: string): string {
  const { protocol, host, href } = URL.parse(text) ?? { protocol: '', host: '', href: '' };
  const origin = `${protocol}//${host}`;
  const isOrigin = host !== '' && !host.includes('*');
  if (isOrigin && (href === origin || href === `${origin}/`)) return origin;
  throw new StartRefused(
    `QUESTLOG_CORS_ORIGINS: ${JSON.stringify(text)} is not an origin; use *, off, or a list such as https://game.example,http://localhost:3000`,
  );
}

/** Allowed methods, the same for every path, because preflight requests are answered before routing. */
const METHODS = 'GET, HEAD, POST, PUT, DELETE';
/** Allowed request headers. `*` allows other headers, but never Authorization. Older browsers need the names. */
const REQUEST_HEADERS = [
  'authorization',
  'content-type',
  'content-encoding',
  'idempotency-key',
  'prefer',
  'traceparent',
  'x-request-id',
  'last-event-id',
  '*',
].join(', ');
const EXPOSED_HEADERS = [
  'X-Request-Id',
  'Idempotency-Replayed',
  'Location',
  'Retry-After',
  'RateLimit',
  'RateLimit-Policy',
  'Preference-Applied',
  'Questlog-Ignored-Fields',
  'Questlog-Clock-Skew',
  'Questlog-Sampled',
  'WWW-Authenticate',
  'Allow',
  'Accept-Encoding',
  'Content-Disposition',
].join(', ');
/** Seconds for which browsers may cache a preflight. Chromium caches it for at most two hours, Firefox for at most a day. */
const MAX_AGE_S = 7_200;

/** Returns the headers of all responses, including the responses to malformed requests. */
export function commonCorsHeaders(allowed: AllowedOrigins): Readonly<Record<string, string>> {
  if (allowed.length === 0) return {};
  const origins = allowed === '*' ? { 'Access-Control-Allow-Origin': '*' } : { Vary: 'Origin' };
  return { ...origins, 'Access-Control-Expose-Headers': EXPOSED_HEADERS };
}

/** Returns the headers of a response to a page of this origin, for responses outside of Koa. */
export function corsHeaders(allowed: AllowedOrigins, origin = ''): Readonly<Record<string, string>> {
  const listed = allowed !== '*' && allowed.includes(origin);
  return { ...commonCorsHeaders(allowed), ...(listed && { 'Access-Control-Allow-Origin': origin }) };
}

/** Allows the listed origins. Runs before the router, so that pages can also read error responses. */
export function allowListedOrigins(allowed: readonly string[]): Middleware {
  return (ctx, next) => {
    const origin = ctx.get('Origin');
    if (allowed.includes(origin)) ctx.set('Access-Control-Allow-Origin', origin);
    return next();
  };
}

/** Responds to preflights. Runs after the router, which has no OPTIONS routes, so that preflights need no token. */
export function answerPreflights(isKnown: (path: string) => boolean): Middleware {
  return (ctx, next) => {
    const isPreflight = ctx.get('Access-Control-Request-Method') !== '';
    if (ctx.method !== 'OPTIONS' || !(isPreflight || isKnown(ctx.path))) return next();
    ctx.status = 204;
    ctx.set({
      'Access-Control-Allow-Methods': METHODS,
      'Access-Control-Allow-Headers': REQUEST_HEADERS,
      'Access-Control-Max-Age': String(MAX_AGE_S),
    });
  };
}
