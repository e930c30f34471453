/**
 * Exchanges the admin token for a cookie, which the browser sends with each request. The server stores no sessions. The admin
 * token is the signing key of the cookie, so every ingest process accepts the cookie until the admin token changes.
 */
import { createHash, createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import { Rejected } from '@questlog/runtime/http/rejected';
import { notAdminToken } from '@questlog/schemas/tokenPrefixes';
import type { Context, Middleware } from 'koa';
import bodyParser from 'koa-bodyparser';

const SESSION_MS = 12 * 60 * 60 * 1000;
const SAFE_METHODS = ['GET', 'HEAD'];
const parse = bodyParser({ enableTypes: ['json'], jsonLimit: '4kb' });

/** Serves `POST /login` and `POST /logout`. Adds the admin token to every other request that has a valid cookie. */
export function signIn(adminToken: string): Middleware {
  const cookieOf = (host: string, expiresMs: string, nonce: string): string => {
    const signed = createHmac('sha256', adminToken).update(`console ${host} ${expiresMs}.${nonce}`);
    return `${expiresMs}.${nonce}.${signed.digest('base64url')}`;
  };
  const isSignedIn = (ctx: Context): boolean => {
    const received = ctx.cookies.get(cookieName(ctx.host)) ?? '';
    const [expiresMs = '', nonce = ''] = received.split('.');
    // Compares the whole text of the cookie. If only the decoded signature was compared, several base64 texts of the same
    // signature would be valid.
    const cookie = cookieOf(ctx.host, expiresMs, nonce);
    const isValid = Number(expiresMs) > Date.now() && isEqual(Buffer.from(received), Buffer.from(cookie));
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
    // A page of another origin must not be able to sign an operator in or out.
    const isForm = ctx.method === 'POST' && (ctx.path === '/login' || ctx.path === '/logout');
    const usesCookie = ctx.get('Authorization') === '' && !isFromOtherOrigin(ctx) && isSignedIn(ctx);
    if ((isForm || (usesCookie && !SAFE_METHODS.includes(ctx.method))) && !isSameOrigin(ctx)) {
      throw new Rejected(
        'forbidden',
        'changes are only accepted from a page of this console, with its Origin header',
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
      throw new Rejected('invalid_request', 'the body must be {"token": "…"} of at most 4 KiB');
    }
    const token: unknown = Reflect.get(Object(ctx.request.body), 'token');
    if (typeof token !== 'string' || !isEqual(sha256(token), sha256(adminToken))) {
      throw new Rejected('unauthorized', notAdminToken(String(token)));
    }
    const expiresMs = String(Date.now() + SESSION_MS);
    // Without the nonce, another operator could guess the cookie, because it would depend only on the time of the sign-in.
    const nonce = randomBytes(16).toString('base64url');
    setCookie(ctx, cookieOf(ctx.host, expiresMs, nonce), SESSION_MS / 1000);
  };
}

/** The cookie name contains the host and the port, because browsers share cookies between all ports of a host. */
function cookieName(host: string): string {
  return `questlog_${sha256(host).toString('hex', 0, 4)}`;
}

/**
 * Returns true if a page of another origin sent the request. The cookie alone is not enough. A browser sends the cookie even
 * with requests from pages on other ports of the same host (RFC 6265bis, 5.2; Fetch Metadata, 2.4).
 */
function isFromOtherOrigin(ctx: Context): boolean {
  return ['same-site', 'cross-site'].includes(ctx.get('Sec-Fetch-Site'));
}

/** Ignores the scheme of the `Origin` header, because a proxy that terminates TLS changes the scheme of the request. */
function isSameOrigin(ctx: Context): boolean {
  return URL.parse(ctx.get('Origin'))?.host === ctx.host;
}

function isEqual(received: Buffer, expected: Buffer): boolean {
  return received.length === expected.length && timingSafeEqual(received, expected);
}

function sha256(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}
