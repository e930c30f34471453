/**
 * Operators sign in with the admin token and get a cookie, which from then on counts as the token. Nothing is kept of it: the
 * cookie is signed with the token, so that it outlives a restart, holds at every ingest, and ends with another token.
 */
import { createHash, createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import { notAdminToken } from '@questlog/schemas/tokenPrefixes';
import type { Context, Middleware } from 'koa';
import bodyParser from 'koa-bodyparser';
import { answerProblem } from './answerProblem.ts';

const SESSION_MS = 12 * 60 * 60 * 1000;
const SAFE_METHODS = ['GET', 'HEAD'];
const parse = bodyParser({ enableTypes: ['json'], jsonLimit: '4kb' });

/** `POST /login` and `POST /logout`; for every other request, the cookie becomes the token. */
export function signIn(adminToken: string): Middleware {
  const cookieOf = (host: string, expiresMs: string, nonce: string): string => {
    const signed = createHmac('sha256', adminToken).update(`console ${host} ${expiresMs}.${nonce}`);
    return `${expiresMs}.${nonce}.${signed.digest('base64url')}`;
  };
  const isSignedIn = (ctx: Context): boolean => {
    const given = ctx.cookies.get(cookieName(ctx.host)) ?? '';
    const [expiresMs = '', nonce = ''] = given.split('.');
    // As text: base64 has several spellings of a signature, and each would be another session in the audit.
    const cookie = cookieOf(ctx.host, expiresMs, nonce);
    const isValid = Number(expiresMs) > Date.now() && isEqual(Buffer.from(given), Buffer.from(cookie));
    // Tells sessions apart in the audit, which takes only digits of its hash.
    if (isValid) ctx.state['consoleSession'] = cookie;
    return isValid;
  };
  const setCookie = (ctx: Context, value: string, seconds: number): void => {
    const secure = ctx.get('Origin').startsWith('https:') ? '; Secure' : '';
    const attributes = `Path=/; Max-Age=${seconds}; HttpOnly; SameSite=Strict${secure}`;
    ctx.set('Set-Cookie', `${cookieName(ctx.host)}=${value}; ${attributes}`);
    ctx.status = 204;
  };
  return async (ctx, next) => {
    // Signing somebody out, or in as somebody else, is a change too.
    const isForm = ctx.method === 'POST' && (ctx.path === '/login' || ctx.path === '/logout');
    const usesCookie = ctx.get('Authorization') === '' && !isFromOtherOrigin(ctx) && isSignedIn(ctx);
    if ((isForm || (usesCookie && !SAFE_METHODS.includes(ctx.method))) && !isSameOrigin(ctx)) {
      return answerProblem(
        ctx,
        'forbidden',
        'a change comes from a page of this console, and its Origin says so',
      );
    }
    if (!isForm) {
      if (usesCookie) ctx.req.headers.authorization = `Bearer ${adminToken}`;
      return await next();
    }
    if (ctx.path === '/logout') return setCookie(ctx, '', 0);
    try {
      await parse(ctx, async () => {});
    } catch {
      ctx.req.resume();
      return answerProblem(ctx, 'invalid_request', 'the body is {"token": "…"}, of at most 4 KiB');
    }
    const token: unknown = Reflect.get(Object(ctx.request.body), 'token');
    if (typeof token !== 'string' || !isEqual(sha256(token), sha256(adminToken))) {
      return answerProblem(ctx, 'unauthorized', notAdminToken(String(token)));
    }
    const expiresMs = String(Date.now() + SESSION_MS);
    // Else who has the admin token, as all operators do, could find a colleague's cookie by trying the times of his sign-in.
    const nonce = randomBytes(16).toString('base64url');
    setCookie(ctx, cookieOf(ctx.host, expiresMs, nonce), SESSION_MS / 1000);
  };
}

/** Browsers tell the ports of a host apart for pages, and not for cookies: two Questlogs of one machine need two names. */
function cookieName(host: string): string {
  return `questlog_${sha256(host).toString('hex', 0, 4)}`;
}

/** Pages of the host's other ports are sent with the cookie, too, as of one site (RFC 6265bis, section 5.2; Fetch Metadata, 2.4). */
function isFromOtherOrigin(ctx: Context): boolean {
  return ['same-site', 'cross-site'].includes(ctx.get('Sec-Fetch-Site'));
}

/** A proxy may end TLS: the host is what the browser and this listener see alike. */
function isSameOrigin(ctx: Context): boolean {
  return URL.parse(ctx.get('Origin'))?.host === ctx.host;
}

function isEqual(given: Buffer, expected: Buffer): boolean {
  return given.length === expected.length && timingSafeEqual(given, expected);
}

function sha256(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}
