/** Tests JWTs with real keys. The issuer is a real HTTP server. */
import { createHmac, generateKeyPairSync, type KeyObject, randomUUID, sign } from 'node:crypto';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Unavailable } from '@questlog/runtime/process/errors';
import type { Logger } from '@questlog/runtime/process/logger';
import { afterEach, beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import { type JwtOptions, type JwtVerifier, openJwtVerifier } from './jwtVerifier.ts';

const [PROJECT, TENANT] = [randomUUID(), randomUUID()];
const ISSUER = 'https://login.studio.example';
const SECONDS = 1_000;
const MINUTES = 60 * SECONDS;
const rsa = generateKeyPairSync('rsa', { modulusLength: 2048 });
const ec = generateKeyPairSync('ec', { namedCurve: 'P-256' });
const stranger = generateKeyPairSync('rsa', { modulusLength: 2048 });

let nowMs: number;
let issuer: Issuer;
let verifier: JwtVerifier;
let logged: unknown[];

beforeEach(async () => {
  nowMs = Date.UTC(2026, 10, 23, 12);
  // The library jose uses this clock for its key cache.
  vi.useFakeTimers({ toFake: ['Date'], now: nowMs });
  issuer = await anIssuer([jwk(rsa.publicKey, 'one', 'RS256'), jwk(ec.publicKey, 'two', 'ES256')]);
  ({ verifier, logged } = aVerifier(issuer.url));
});

afterEach(() => {
  vi.useRealTimers();
});

describe('a JWT of the issuer', () => {
  test('has the scopes that it names in its project, until it expires', async () => {
    const text = aJwt({ claims: { scope: 'openid events:write reports:write' } });

    expect(await verifier.verify(text)).toEqual({
      id: expect.stringMatching(/^[0-9a-f-]{36}$/),
      ...{ projectId: PROJECT, tenantId: TENANT, scopes: ['events:write', 'reports:write'] },
      buildIds: null,
      endsAtMs: nowMs + 10 * MINUTES + 30 * SECONDS,
    });
  });

  test('may have a list of scopes, another allowed algorithm, and no tenant', async () => {
    const claims = { scope: ['read'], questlog_tenant: undefined };
    const text = aJwt({ header: { alg: 'ES256', kid: 'two' }, key: ec.privateKey, claims });

    expect(await verifier.verify(text)).toMatchObject({ scopes: ['read'], tenantId: undefined });
  });

  test('may name the builds that it writes for, as a list or separated by spaces', async () => {
    const [one, two] = [PROJECT, TENANT];
    for (const claim of [[one.toUpperCase(), two], `${one} ${two}`]) {
      const verified = await verifier.verify(aJwt({ claims: { questlog_builds: claim } }));
      expect(verified.buildIds).toEqual([one, two]);
    }
    for (const claim of ['', null, 7, [one, 'all'], {}]) {
      await expectRefusal(
        aJwt({ claims: { questlog_builds: claim } }),
        'its claim questlog_builds is missing or is not a UUID',
      );
    }
  });

  test('identifies the same caller in all tokens of its subject and issuer, and no other caller', async () => {
    const of = async (claims: object) => (await verifier.verify(aJwt({ claims }))).id;
    const other = aVerifier(issuer.url, { issuer: 'https://other.example' }).verifier;
    const first = await of({ jti: '1' });

    expect(await of({ jti: '2' })).toBe(first);
    expect(await of({ sub: 'player-2' })).not.toBe(first);
    expect((await other.verify(aJwt({ claims: { iss: 'https://other.example' } }))).id).not.toBe(first);
  });

  test('is rejected after its exp and before its nbf, with the tolerated clock skew', async () => {
    const seconds = Math.floor(nowMs / 1000);

    await expect(verifier.verify(aJwt({ claims: { exp: seconds - 29 } }))).resolves.toBeDefined();
    await expectRefusal(aJwt({ claims: { exp: seconds - 30 } }), 'it has expired');
    await expect(verifier.verify(aJwt({ claims: { nbf: seconds + 30 } }))).resolves.toBeDefined();
    await expectRefusal(aJwt({ claims: { nbf: seconds + 31 } }), 'it is not valid yet (nbf)');
  });
});

const ALGORITHM = 'it is signed with an algorithm that is not allowed here';

const refused: readonly (readonly [string, () => string, string])[] = [
  ['with the algorithm none', () => aJwt({ header: { alg: 'none' } }), ALGORITHM],
  [
    'with the algorithm none and no signature',
    () => withSignature(aJwt({ header: { alg: 'none' } }), ''),
    ALGORITHM,
  ],
  ['signed with the public key as a secret', () => confused(), ALGORITHM],
  ['with an algorithm that is not configured', () => aJwt({ header: { alg: 'PS256' } }), ALGORITHM],
  [
    'with the key of another algorithm',
    () => aJwt({ header: { kid: 'two' } }),
    'its issuer has no key with this kid for this algorithm',
  ],
  ['signed with an unknown key', () => aJwt({ key: stranger.privateKey }), 'its signature is not valid'],
  ['with a key in its header', () => ownKey('jwk'), 'its signature is not valid'],
  ['with the address of a JWKS in its header', () => ownKey('jku'), 'its signature is not valid'],
  [
    'with a path as kid',
    () => aJwt({ header: { kid: '../../dev/null' } }),
    'its issuer has no key with this kid for this algorithm',
  ],
  [
    'with a kid that is not a string',
    () => aJwt({ header: { kid: 7 } }),
    'its issuer has no key with this kid for this algorithm',
  ],
  ['with a critical extension', () => aJwt({ header: { crit: ['b64'], b64: false } }), 'it is malformed'],
  ['changed after it was signed', () => changed(), 'its signature is not valid'],
  ['without exp', () => aJwt({ claims: { exp: undefined } }), 'it lacks the claim exp'],
  [
    'with an exp that is a string',
    () => aJwt({ claims: { exp: '9999999999' } }),
    'its claim exp does not have the required value',
  ],
  [
    'for longer than a day',
    () => aJwt({ claims: { exp: 9_999_999_999 } }),
    'its claim exp is more than 24 hours in the future',
  ],
  ['without sub', () => aJwt({ claims: { sub: undefined } }), 'it lacks the claim sub'],
  [
    'with a sub that is a list',
    () => aJwt({ claims: { sub: ['a'] } }),
    'its claim sub is not a string or is empty',
  ],
  [
    'of another issuer',
    () => aJwt({ claims: { iss: `${ISSUER}/` } }),
    'its claim iss does not have the required value',
  ],
  [
    'for another service',
    () => aJwt({ claims: { aud: 'shop' } }),
    'its claim aud does not have the required value',
  ],
  ['without aud', () => aJwt({ claims: { aud: undefined } }), 'it lacks the claim aud'],
  [
    'without a project',
    () => aJwt({ claims: { questlog_project: undefined } }),
    'its claim questlog_project is missing or is not a UUID',
  ],
  [
    'with a tenant that is not a UUID',
    () => aJwt({ claims: { questlog_tenant: 'all' } }),
    'its claim questlog_tenant is missing or is not a UUID',
  ],
  ['that is encrypted', () => 'a.b.c.d.e', 'it is malformed'],
  ['with two parts', () => 'a.b', 'it is malformed'],
  ['with a header that is not JSON', () => `${base64('{')}.${base64('{}')}.AA`, 'it is malformed'],
];

describe('a JWT', () => {
  test.each(refused)(
    '%s is rejected, with a message that repeats nothing of it',
    async (_, make, sentence) => {
      await expectRefusal(make(), sentence);
    },
  );

  test('of more than 8192 characters is rejected before it is decoded', async () => {
    await expectRefusal(aJwt({ claims: { more: 'x'.repeat(8_192) } }), 'it has more than 8192 characters');
    expect(issuer.asked()).toBe(0);
  });

  test('without kid is rejected if several keys match, and accepted if one key matches', async () => {
    const text = aJwt({ header: { kid: undefined } });
    expect(await verifier.verify(text)).toMatchObject({ projectId: PROJECT });

    issuer.keys.push(jwk(stranger.publicKey, 'three', 'RS256'));
    nowMs += 11 * MINUTES;
    ({ verifier } = aVerifier(issuer.url));
    await expectRefusal(
      aJwt({ header: { kid: undefined } }),
      'it has no kid, and several keys of its issuer match',
    );
  });

  test('with a weak key is rejected, and a warning is logged', async () => {
    const weak = generateKeyPairSync('rsa', { modulusLength: 1024 });
    issuer.keys.push(jwk(weak.publicKey, 'weak', 'RS256'));

    await expectRefusal(aJwt({ header: { kid: 'weak' }, key: weak.privateKey }), 'its key cannot be used');
    expect(logged).toEqual([['jwt_key_unusable', { kind: 'TypeError' }]]);
  });
});

describe('the keys of the issuer', () => {
  test('are read once, and again for a new key', async () => {
    await verifier.verify(aJwt());
    await verifier.verify(aJwt());
    expect(issuer.asked()).toBe(1);
    issuer.keys.push(jwk(stranger.publicKey, 'three', 'RS256'));
    pass(31 * SECONDS);

    const rotated = aJwt({ header: { kid: 'three' }, key: stranger.privateKey });
    expect(await verifier.verify(rotated)).toMatchObject({ projectId: PROJECT });
    expect(issuer.asked()).toBe(2);
  });

  test('are not read again for each unknown kid', async () => {
    await verifier.verify(aJwt());
    for (let i = 0; i < 20; i++)
      await expect(verifier.verify(aJwt({ header: { kid: `${i}` } }))).rejects.toThrow();

    expect(issuer.asked()).toBe(1);
  });

  test('are no longer accepted ten minutes after they were removed', async () => {
    await verifier.verify(aJwt());
    issuer.keys.splice(0, 1);
    pass(10 * MINUTES);
    await expectRefusal(aJwt(), 'its issuer has no key with this kid for this algorithm');
  });

  test('are used for an hour while the issuer is unavailable; after that requests get a 503 until the issuer answers', async () => {
    await verifier.verify(aJwt());
    issuer.isAway = true;
    pass(59 * MINUTES);
    expect(await verifier.verify(aJwt())).toMatchObject({ projectId: PROJECT });
    pass(2 * MINUTES);
    await expect(verifier.verify(aJwt())).rejects.toThrow(Unavailable);

    issuer.isAway = false;
    await expect(verifier.verify(aJwt())).rejects.toThrow(Unavailable);
    pass(5 * SECONDS);
    expect(await verifier.verify(aJwt())).toMatchObject({ projectId: PROJECT });
  });

  test('are used without waiting while the issuer is unavailable, and are updated when it answers', async () => {
    await verifier.verify(aJwt());
    issuer.isAway = true;
    pass(10 * MINUTES);
    await verifier.verify(aJwt());
    pass(5 * SECONDS);
    const silence = Promise.withResolvers<void>();
    issuer.silence = silence.promise;
    for (let i = 0; i < 5; i++) expect(await verifier.verify(aJwt())).toMatchObject({ projectId: PROJECT });
    // No request waited until the timeout of the issuer, so only the first failure was logged.
    expect(logged).toHaveLength(1);

    issuer.isAway = false;
    issuer.keys.splice(0, 1);
    silence.resolve();
    await vi.waitFor(() => expect(verifier.verify(aJwt())).rejects.toThrow('no key with this kid'), {
      timeout: 10_000,
      interval: 5,
    });
    expect(issuer.asked()).toBe(3);
  });

  test('that cannot be read cause a 503, never a 401, and are requested once in five seconds', async () => {
    issuer.isAway = true;
    for (let i = 0; i < 5; i++) {
      await expect(verifier.verify(aJwt())).rejects.toThrow('the keys of the JWT issuer cannot be read');
    }

    expect(issuer.asked()).toBe(1);
    expect(logged).toEqual([['jwks_not_read', { url: issuer.url, cause: expect.stringContaining('503') }]]);
  });

  test.each([
    ['larger than 256 KiB', JSON.stringify({ keys: [], more: 'x'.repeat(256 * 1024) })],
    ['no JSON', '<html>'],
    ['no set of keys', '{"keys": [7]}'],
  ])('are not accepted if the response is %s', async (_, answer) => {
    issuer.answer = answer;

    await expect(verifier.verify(aJwt())).rejects.toThrow(Unavailable);
  });
});

interface Issuer {
  readonly url: string;
  readonly keys: object[];
  isAway: boolean;
  answer: string | undefined;
  /** Promise that delays the response of the issuer until it resolves. */
  silence: Promise<void> | undefined;
  asked(): number;
}

async function anIssuer(keys: object[]): Promise<Issuer> {
  let asked = 0;
  const server: Server = createServer(async (_, response) => {
    asked += 1;
    await found.silence;
    response.writeHead(found.isAway ? 503 : 200, { Connection: 'close' });
    response.end(found.answer ?? JSON.stringify({ keys: found.keys }));
  }).listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  onTestFinished(() => void server.close());
  const { port } = server.address() as AddressInfo;
  const found: Issuer = {
    ...{ url: `http://127.0.0.1:${port}/jwks`, keys, isAway: false, answer: undefined, silence: undefined },
    asked: () => asked,
  };
  return found;
}

function aVerifier(
  url: string,
  given: Partial<JwtOptions> = {},
): { verifier: JwtVerifier; logged: unknown[] } {
  const told: unknown[] = [];
  const logger = { warn: (...line: unknown[]) => told.push(line) } as unknown as Logger;
  const options: JwtOptions = {
    ...{ jwksUrl: new URL(url), issuer: ISSUER, audience: 'questlog', algorithms: ['RS256', 'ES256'] },
    ...{ clockSkewSeconds: 30 },
    claims: {
      project: 'questlog_project',
      tenant: 'questlog_tenant',
      scopes: 'scope',
      builds: 'questlog_builds',
    },
    ...given,
  };
  return { verifier: openJwtVerifier(options, { now: () => nowMs }, logger), logged: told };
}

function pass(ms: number): void {
  nowMs += ms;
  vi.setSystemTime(nowMs);
}

interface Given {
  readonly header?: object;
  readonly claims?: object;
  readonly key?: KeyObject;
}

/** Signs a JWT without a library, because libraries create no invalid JWTs. */
function aJwt({ header = {}, claims = {}, key = rsa.privateKey }: Given = {}): string {
  const head = base64(JSON.stringify({ alg: 'RS256', typ: 'JWT', kid: 'one', ...header }));
  const payload = base64(
    JSON.stringify({
      ...{ iss: ISSUER, aud: 'questlog', sub: 'player-1', exp: Math.floor(nowMs / 1000) + 600 },
      ...{ questlog_project: PROJECT, questlog_tenant: TENANT, scope: 'events:write', ...claims },
    }),
  );
  const signature = sign('sha256', Buffer.from(`${head}.${payload}`), { key, dsaEncoding: 'ieee-p1363' });
  return `${head}.${payload}.${signature.toString('base64url')}`;
}

/** Returns a JWT that is signed by HS256 with the text of the public key. */
function confused(): string {
  const signed = aJwt({ header: { alg: 'HS256' } })
    .split('.')
    .slice(0, 2)
    .join('.');
  const secret = rsa.publicKey.export({ type: 'spki', format: 'pem' });
  return `${signed}.${createHmac('sha256', secret).update(signed).digest('base64url')}`;
}

function ownKey(name: 'jwk' | 'jku'): string {
  const own = name === 'jwk' ? jwk(stranger.publicKey, 'one', 'RS256') : `${issuer.url}/own`;
  return aJwt({ header: { [name]: own }, key: stranger.privateKey });
}

function changed(): string {
  const [head, , signature] = aJwt().split('.');
  const [, payload] = aJwt({ claims: { scope: 'read' } }).split('.');
  return [head, payload, signature].join('.');
}

function withSignature(text: string, signature: string): string {
  return [...text.split('.').slice(0, 2), signature].join('.');
}

function jwk(key: KeyObject, kid: string, alg: string): object {
  return { ...key.export({ format: 'jwk' }), kid, alg, use: 'sig' };
}

function base64(text: string): string {
  return Buffer.from(text).toString('base64url');
}

async function expectRefusal(text: string, sentence: string): Promise<void> {
  await expect(verifier.verify(text)).rejects.toMatchObject({
    ...{ code: 'unauthorized', message: `the access token is not a valid JWT: ${sentence}` },
    headers: { 'WWW-Authenticate': 'Bearer realm="questlog", error="invalid_token"' },
  });
}
