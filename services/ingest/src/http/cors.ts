/** Which pages may read an answer of the games' listener (Fetch, section 3.2), and the preflights that their browsers send. */
import { StartRefused } from '@questlog/runtime/process/errors';
import type { Middleware } from 'koa';

/** `*`: pages of every origin, which is safe since nothing here rests on cookies. An empty list: none. */
export type AllowedOrigins = '*' | readonly string[];

/** @throws StartRefused for what is neither `*`, `off` nor a list of origins. */
export function allowedOrigins(setting: string): AllowedOrigins {
  const text = setting.trim();
  if (text === '*') return text;
  if (text === '' || text === 'off') return [];
  return text.split(',').map((each) => originOf(each.trim()));
}

/** As browsers write it: in lower case, without the scheme's own port. A game in an app's frame has a scheme of its own. */
function originOf(text: string): string {
  const { protocol, host, href } = URL.parse(text) ?? { protocol: '', host: '', href: '' };
  const origin = `${protocol}//${host}`;
  const isOrigin = host !== '' && !host.includes('*');
  if (isOrigin && (href === origin || href === `${origin}/`)) return origin;
  throw new StartRefused(
    `QUESTLOG_CORS_ORIGINS: ${JSON.stringify(text)} is no origin; give *, off, or a list such as https://game.example,http://localhost:3000`,
  );
}

/** Of every path, since a preflight is answered before anything is known of who asks. */
const METHODS = 'GET, HEAD, POST, PUT, DELETE';
/** `*` stands for what else a client may send, but never for Authorization; older browsers take only names. */
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
/** Browsers keep a preflight's answer no longer than this: Chromium two hours, Firefox a day. */
const MAX_AGE_S = 7_200;

/** What every answer carries, whoever asks; also one to bytes that were no request. */
export function commonCorsHeaders(allowed: AllowedOrigins): Readonly<Record<string, string>> {
  if (allowed.length === 0) return {};
  const origins = allowed === '*' ? { 'Access-Control-Allow-Origin': '*' } : { Vary: 'Origin' };
  return { ...origins, 'Access-Control-Expose-Headers': EXPOSED_HEADERS };
}

/** Returns the headers of an answer to a page of this origin, for answers that are made outside of Koa. */
export function corsHeaders(allowed: AllowedOrigins, origin = ''): Readonly<Record<string, string>> {
  const listed = allowed !== '*' && allowed.includes(origin);
  return { ...commonCorsHeaders(allowed), ...(listed && { 'Access-Control-Allow-Origin': origin }) };
}

/** Stands before the router: a problem too can be read by the page that asked. */
export function allowListedOrigins(allowed: readonly string[]): Middleware {
  return (ctx, next) => {
    const origin = ctx.get('Origin');
    if (allowed.includes(origin)) ctx.set('Access-Control-Allow-Origin', origin);
    return next();
  };
}

/**
 * Stands behind the router, no route of which takes OPTIONS; so nobody is asked for a token.
 * @param isKnown whether the router has a route of this path.
 */
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
