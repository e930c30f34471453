/** Adds CORS headers to responses for game clients, and answers preflight requests (Fetch, section 3.2). */
import { StartRefused } from '@questlog/runtime/process/errors';
import type { Middleware } from 'koa';

/** Origins whose web pages may use the API. `*` allows every origin, which is safe because the API does not use cookies. */
export type AllowedOrigins = '*' | readonly string[];

/** @throws StartRefused if the setting is not `*`, `off`, or a list of origins. */
export function allowedOrigins(setting: string): AllowedOrigins {
  const text = setting.trim();
  if (text === '*') return text;
  if (text === '' || text === 'off') return [];
  return text.split(',').map((each) => originOf(each.trim()));
}

/** Returns the normalized origin. Allows custom schemes, because the web view of a mobile app can have such a scheme. */
function originOf(text: string): string {
  const { protocol, host, href } = URL.parse(text) ?? { protocol: '', host: '', href: '' };
  const origin = `${protocol}//${host}`;
  const isOrigin = host !== '' && !host.includes('*');
  if (isOrigin && (href === origin || href === `${origin}/`)) return origin;
  throw new StartRefused(
    `QUESTLOG_CORS_ORIGINS: ${JSON.stringify(text)} is not an origin; use *, off, or a list such as https://game.example,http://localhost:3000`,
  );
}

/** Methods that a preflight response allows. All paths have the same list. */
const METHODS = 'GET, HEAD, POST, PUT, DELETE';
/** Headers that a preflight response allows. `*` is not enough: it excludes Authorization, and old browsers ignore it. */
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
/** Seconds for which browsers cache the response to a preflight request. Chromium allows at most two hours. */
const MAX_AGE_S = 7_200;

/** Returns the CORS headers that all responses have, including responses to malformed requests. */
export function commonCorsHeaders(allowed: AllowedOrigins): Readonly<Record<string, string>> {
  if (allowed.length === 0) return {};
  const origins = allowed === '*' ? { 'Access-Control-Allow-Origin': '*' } : { Vary: 'Origin' };
  return { ...origins, 'Access-Control-Expose-Headers': EXPOSED_HEADERS };
}

/** Returns the CORS headers of a response that is sent without Koa. */
export function corsHeaders(allowed: AllowedOrigins, origin = ''): Readonly<Record<string, string>> {
  const listed = allowed !== '*' && allowed.includes(origin);
  return { ...commonCorsHeaders(allowed), ...(listed && { 'Access-Control-Allow-Origin': origin }) };
}

/** Middleware that adds the CORS headers for listed origins. Runs before the router, so that web pages can also read errors. */
export function allowListedOrigins(allowed: readonly string[]): Middleware {
  return (ctx, next) => {
    const origin = ctx.get('Origin');
    if (allowed.includes(origin)) ctx.set('Access-Control-Allow-Origin', origin);
    return next();
  };
}

/** Middleware that answers preflight requests. Browsers send preflight requests without a token. */
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
