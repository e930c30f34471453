/** Tests the sign-in to the console, and attempts to bypass the sign-in. */
import { createHmac } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { sharedProduct } from './sharedProduct.ts';

const BASE64URL = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_';

describe('signing in', () => {
  const OF_A_PROJECT =
    'this is the token of a project, which only the listener for games accepts; operators use the admin token';
  const shared = sharedProduct();

  /** @param token the token for the sign-in. Undefined for the admin token */
  async function login(
    token?: string,
    headers: Record<string, string> = {},
    body?: string,
  ): Promise<Response> {
    const { adminUrl, adminToken } = shared.product.credentials;
    return await fetch(`${adminUrl}/login`, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json', Origin: adminUrl, ...headers },
      body: body ?? JSON.stringify({ token: token ?? adminToken }),
    });
  }

  async function cookie(): Promise<string> {
    return (await login()).headers.get('Set-Cookie')?.split(';')[0] ?? '';
  }

  test('accepts the admin token and returns a cookie that scripts and other sites cannot use', async () => {
    const answer = await login();
    expect(answer.status).toBe(204);
    expect(answer.headers.get('Set-Cookie')).toMatch(
      /^questlog_[0-9a-f]{8}=\d+\.[\w-]{22}\.[\w-]{43}; Path=\/; Max-Age=43200; HttpOnly; SameSite=Strict$/,
    );
    expect(
      (
        await login(undefined, { Origin: shared.product.credentials.adminUrl.replace('http', 'https') })
      ).headers.get('Set-Cookie'),
    ).toMatch(/; Secure$/);
    for (const token of ['', 'wrong', shared.product.credentials.token]) {
      const refused = await login(token);
      expect([refused.status, refused.headers.get('Set-Cookie')]).toEqual([401, null]);
      const { detail } = (await refused.json()) as { detail: string };
      expect(detail).toBe(token.startsWith('qlt_') ? OF_A_PROJECT : 'this is not the admin token');
    }
    expect([(await login('x'.repeat(10_000))).status, (await login('', {}, '{')).status]).toEqual([400, 400]);
  });

  test('accepts changes with a cookie only from a page of the console', async () => {
    const { adminUrl } = shared.product.credentials;
    const Cookie = await cookie();
    const ask = async (method: string, headers: Record<string, string>): Promise<number> => {
      const body = method === 'GET' ? {} : { body: '{"name":"made by trick"}' };
      const sent = { Cookie, 'Content-Type': 'application/json', ...headers };
      return (await fetch(`${adminUrl}/admin/tenants`, { method, headers: sent, ...body })).status;
    };
    expect(await ask('GET', {})).toBe(200);
    for (const site of ['same-origin', 'none'])
      expect(await ask('GET', { 'Sec-Fetch-Site': site })).toBe(200);
    // Simulates a page on another port of this host. The browser sends the cookie with the requests of that page.
    for (const site of ['same-site', 'cross-site'])
      expect(await ask('GET', { 'Sec-Fetch-Site': site }), site).toBe(401);
    for (const Origin of ['https://evil.example', 'null', adminUrl.replace(/\d+$/, '1')]) {
      expect(await ask('POST', { Origin }), Origin).toBe(403);
    }
    expect(await ask('POST', {})).toBe(403);
    expect(await shared.product.admin('GET', '/admin/tenants').then((answer) => answer.text())).not.toContain(
      'made by trick',
    );
    expect(await ask('GET', { Cookie: `${Cookie}x` })).toBe(401);
    expect(await ask('GET', { Cookie: Cookie.replace(/=\d+/, '=9999999999999') })).toBe(401);
    expect(await ask('GET', { Cookie: Cookie.replace(/=\d+/, '=1') })).toBe(401);
  });

  test('accepts only the exact cookie, because another spelling would be another actor in the audit', async () => {
    const given = await cookie();
    // Changes an unused bit. The signature in the cookie has 43 base64url characters, and two bits of the last character are
    // unused.
    const unusedBit = given.replace(/.$/, (last) => BASE64URL.charAt(BASE64URL.indexOf(last) + 1));
    const statusOf = async (Cookie: string): Promise<number> =>
      (await fetch(`${shared.product.credentials.adminUrl}/admin/tenants`, { headers: { Cookie } })).status;
    expect(await statusOf(given)).toBe(200);
    const others = [`${given}.`, `${given}.anything`, `${given}!`, `${given}=`, unusedBit];
    expect(await Promise.all(others.map(statusOf))).toEqual(others.map(() => 401));
  });

  test('returns a cookie that cannot be computed from the admin token and the time of the sign-in', async () => {
    const { adminUrl, adminToken } = shared.product.credentials;
    const [, name, expiresMs] = /^(.+?)=(\d+)/.exec(await cookie()) ?? [];
    const signed = createHmac('sha256', adminToken).update(`console ${new URL(adminUrl).host} ${expiresMs}`);
    const Cookie = `${name}=${expiresMs}.${signed.digest('base64url')}`;
    expect((await fetch(`${adminUrl}/admin/tenants`, { headers: { Cookie } })).status).toBe(401);
    const given = await Promise.all(Array.from({ length: 10 }, cookie));
    expect(new Set(given.map((one) => one.split('.')[1])).size).toBe(given.length);
  });

  test('is bound to the host of the sign-in', async () => {
    const { adminUrl } = shared.product.credentials;
    const [, value = ''] = /=(.+)/.exec(await cookie()) ?? [];
    const other = adminUrl.replace('127.0.0.1', 'localhost');
    const there = await fetch(`${other}/login`, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json', Origin: other },
      body: JSON.stringify({ token: shared.product.credentials.adminToken }),
    });
    const name = there.headers.get('Set-Cookie')?.split('=')[0] ?? '';
    const taken = await fetch(`${other}/admin/tenants`, { headers: { Cookie: `${name}=${value}` } });
    expect([there.status, taken.status]).toEqual([204, 401]);
  });

  test('every path under /admin/ needs the token, and the files of the pages contain no secret', async () => {
    const { adminUrl, adminToken } = shared.product.credentials;
    const statusOf = async (path: string): Promise<number> => (await fetch(adminUrl + path)).status;
    expect(await Promise.all(['/admin/tail', '/admin/nothing', '/', '/ui/main.ts'].map(statusOf))).toEqual([
      401, 401, 200, 200,
    ]);
    const unknown = [
      'tsconfig.json',
      '..%2fpackage.json',
      'lib/x.js',
      'lib/constructor.js',
      'lib/__proto__.js',
    ];
    expect(await Promise.all(unknown.map((name) => statusOf(`/ui/${name}`)))).toEqual(unknown.map(() => 404));
    const page = await fetch(adminUrl);
    expect(await page.text()).not.toContain(adminToken);
    const policy = page.headers.get('Content-Security-Policy') ?? '';
    expect(policy).toContain("frame-ancestors 'none'");
    expect(policy).not.toMatch(/unsafe|\*|https?:/);
  });
});
