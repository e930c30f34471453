/** Tests access tokens and JWTs of an issuer. Tests rotation under load, expiry, the time of the last use, streams, and uploads. */
import { generateKeyPairSync, sign } from 'node:crypto';
import { once } from 'node:events';
import { createServer, request } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { anEvent, anUnknownId, aToken, eventually, type TestProject } from './builders.ts';
import type { Answer } from './product.ts';
import { ownProduct } from './sharedProduct.ts';

const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
const ISSUER = 'https://login.studio.example';
const issuer = createServer((_, response) => {
  response.writeHead(200, { Connection: 'close' });
  response.end(JSON.stringify({ keys: [{ ...publicKey.export({ format: 'jwk' }), kid: 'one' }] }));
}).listen(0, '127.0.0.1');
await once(issuer, 'listening');
afterAll(() => void issuer.close());

// Uses a separate product, because the load of the first test would delay the reads of other tests.
const shared = ownProduct({
  env: {
    QUESTLOG_JWKS_URL: `http://127.0.0.1:${(issuer.address() as AddressInfo).port}/jwks`,
    ...{ QUESTLOG_JWT_ISSUER: ISSUER, QUESTLOG_JWT_AUDIENCE: 'questlog' },
  },
});
let game: TestProject;

beforeAll(async () => {
  game = await shared.aProject({ revision: 'B' });
});

describe.concurrent('a rotated token', () => {
  test('is valid for the overlap: under load no request is rejected until the old token ends', async () => {
    const old = await aToken(shared.product, game.projectId);
    const load = underLoad(() => post(old.token));
    const answer = await rotate(old.id, { overlapSeconds: 2 });
    expect(answer.status, answer.text()).toBe(201);
    const successor = answer.json();
    const newLoad = underLoad(() => post(successor.token));
    const endsAtMs = Date.parse(successor.oldExpiresAt);

    const [refused] = await load.untilRefused;
    expect(refused?.status).toBe(401);
    expect(refused?.json().detail).toBe(
      'the access token has expired; it was rotated and replaced by another token',
    );
    expect(Date.now()).toBeGreaterThanOrEqual(endsAtMs);
    expect(load.taken()).toBeGreaterThan(10);
    newLoad.stop();
    expect(await newLoad.untilRefused).toEqual([]);
    expect(newLoad.taken()).toBeGreaterThan(10);
    expect(successor.scopes).toEqual(old.scopes);
  });

  test('ends immediately without an overlap, with its streams and running uploads', async () => {
    const old = await aToken(shared.product, game.projectId, { scopes: ['read', 'reports:write'] });
    const stream = await openStream(old.token);
    const upload = await halfAnUpload(old.token);
    await rotate(old.id, { overlapSeconds: 0 });

    expect((await get(old.token)).status).toBe(401);
    await stream.ended;
    expect(await upload.answered).not.toBe(200);
  });

  test('lets only its successors retract its reports, also after it is revoked', async () => {
    const [first, stranger] = [
      await aToken(shared.product, game.projectId),
      await aToken(shared.product, game.projectId),
    ];
    const filed = (await report(first.token)).json().id;
    const second = (await rotate(first.id, { overlapSeconds: 60 })).json();
    const filedBySecond = (await report(second.token)).json().id;
    await shared.product.admin('DELETE', `/admin/tokens/${first.id}`);
    const third = (await rotate(second.id, { overlapSeconds: 60 })).json();

    expect((await retract(stranger.token, filed)).status).toBe(403);
    expect((await retract(third.token, filed)).status).toBe(204);
    expect((await retract(third.token, filedBySecond)).status).toBe(204);
  });

  test('keeps its end; its successor has the same lifetime or the requested one', async () => {
    const expiresAt = new Date(Date.now() + 3_600_000).toISOString();
    const of = async (given: object) => {
      const { id } = await aToken(shared.product, game.projectId, { expiresAt });
      return (await rotate(id, { overlapSeconds: 86_400, ...given })).json();
    };
    const [same, never] = [await of({}), await of({ expiresAt: null })];

    expect([same.oldExpiresAt, never.oldExpiresAt]).toEqual([expiresAt, expiresAt]);
    expect(Date.parse(same.expiresAt)).toBeGreaterThanOrEqual(Date.parse(expiresAt));
    expect(Date.parse(same.expiresAt)).toBeLessThan(Date.parse(expiresAt) + 60_000);
    expect(never.expiresAt).toBeNull();
    expect(await listed(same.id)).toMatchObject({ rotatedFrom: same.rotatedFrom, rotatedTo: null });
    expect(await listed(same.rotatedFrom)).toMatchObject({ rotatedTo: same.id, expiresAt });
  });

  test('cannot be rotated again: the response names its successor, unless that is revoked', async () => {
    const { id } = await aToken(shared.product, game.projectId);
    const successor = (await rotate(id, { overlapSeconds: 60 })).json();
    const again = await rotate(id, { overlapSeconds: 60 });

    expect([again.status, again.json().code]).toEqual([409, 'already_decided']);
    expect(again.json().detail).toContain(successor.id);
    await shared.product.admin('DELETE', `/admin/tokens/${successor.id}`);
    // Expects a rejection without `expiresAt`, because the intended lifetime of the new token is unknown.
    const unsaid = await rotate(id, { overlapSeconds: 60 });
    expect([unsaid.status, unsaid.json().errors[0].pointer]).toEqual([400, '/expiresAt']);
    const said = await rotate(id, { overlapSeconds: 60, expiresAt: null });
    expect([said.status, said.json().expiresAt]).toEqual([201, null]);
  });

  test('has one successor: of concurrent rotations one succeeds, and the others create no token', async () => {
    const { id } = await aToken(shared.product, game.projectId);
    const answers = await Promise.all(Array.from({ length: 5 }, () => rotate(id, { overlapSeconds: 60 })));
    const all: { rotatedFrom: string }[] = (await shared.product.admin('GET', '/admin/tokens')).json();

    expect(answers.map(({ status }) => status).toSorted()).toEqual([201, 409, 409, 409, 409]);
    expect(all.filter(({ rotatedFrom }) => rotatedFrom === id)).toHaveLength(1);
  });

  test.each([
    ['more than 30 days of overlap', { overlapSeconds: 2_592_001 }, 'overlapSeconds must be <= 2592000'],
    ['a negative overlap', { overlapSeconds: -1 }, 'overlapSeconds must be >= 0'],
    ['no overlap', {}, 'overlapSeconds is required'],
    ['an end in the past', { overlapSeconds: 0, expiresAt: '2020-01-01' }, 'expiresAt must be in the future'],
  ])('is not made of %s', async (_, body, detail) => {
    const { id } = await aToken(shared.product, game.projectId);
    const answer = await rotate(id, body);

    expect([answer.status, answer.json().detail]).toEqual([400, detail]);
    expect(await listed(id)).toMatchObject({ rotatedTo: null, expiresAt: null });
  });

  test('that does not exist gets a 404', async () => {
    expect((await rotate(anUnknownId(), { overlapSeconds: 0 })).status).toBe(404);
  });
});

describe.concurrent('a token', () => {
  test('that expires gets a 401 with the reason, and ends its stream and its running upload', async () => {
    const { token } = await aToken(shared.product, game.projectId, {
      scopes: ['read', 'reports:write'],
      expiresAt: new Date(Date.now() + 4_000).toISOString(),
    });
    const stream = await openStream(token);
    const upload = await halfAnUpload(token);

    await stream.ended;
    expect(await upload.answered).not.toBe(200);
    const refused = await get(token);
    expect([refused.status, refused.json().detail]).toEqual([401, 'the access token has expired']);
    expect(refused.headers.get('www-authenticate')).toContain('error="invalid_token"');
  });

  test('with a typo gets another reason than an unknown token', async () => {
    const { token } = await aToken(shared.product, game.projectId);
    const mistyped = token.slice(0, -1) + (token.endsWith('x') ? 'y' : 'x');

    expect(token).toMatch(/^qlt_[0-9A-Za-z]{44}$/);
    expect((await get(mistyped)).json().detail).toContain('the access token is mistyped');
    expect((await get('qlt_nobody')).json().detail).toBe('the access token is unknown, or was revoked');
    const ofOperators = await get(shared.product.credentials.adminToken);
    expect([ofOperators.status, ofOperators.json().detail]).toEqual([
      401,
      expect.stringContaining(
        'this is an admin token, which only the listener for operators accepts; games use',
      ),
    ]);
  });

  test('with a rate per address gets a 429 above the rate, also with its successor; other tokens do not', async () => {
    const perAddress = { requestsPerSecond: 1 };
    const limited = (
      await shared.product.admin('POST', '/admin/tokens', { projectId: game.projectId, perAddress })
    ).json();
    const successor = (await rotate(limited.id, { overlapSeconds: 60 })).json();
    const begunMs = Date.now();
    const tokens = Array.from({ length: 100 }, (_, n) => (n % 2 === 0 ? limited.token : successor.token));
    const answers = await Promise.all(tokens.map(post));
    const seconds = (Date.now() - begunMs) / 1000;
    const refused = answers.find(({ status }) => status !== 201);

    expect([refused?.status, refused?.json().detail]).toEqual([
      429,
      expect.stringContaining('with this token an address may send 1 requests a second; try again in '),
    ]);
    expect(Number(refused?.headers.get('retry-after'))).toBeGreaterThan(0);
    // The expected number is a burst of ten seconds and the refill during the test.
    const taken = answers.filter(({ status }) => status === 201).length;
    expect(taken).toBeGreaterThanOrEqual(10);
    expect(taken).toBeLessThanOrEqual(10 + Math.ceil(seconds));
    expect((await game.post(anEvent())).status).toBe(201);
    expect(await listed(successor.id)).toMatchObject({ perAddress });
  });

  test('has the minute of its last use; a rejected request does not count', async () => {
    const { id, token } = await aToken(shared.product, game.projectId, {
      expiresAt: new Date(Date.now() + 600_000).toISOString(),
    });
    expect(await listed(id)).toMatchObject({ lastUsedAt: null });
    const before = Math.floor(Date.now() / 60_000) * 60_000;
    expect((await post(token)).status).toBe(201);

    // Ingest writes the minutes of uses once per second.
    const { lastUsedAt } = await eventually(
      () => listed(id),
      (shown) => shown.lastUsedAt !== null,
    );
    expect(Date.parse(lastUsedAt)).toBeGreaterThanOrEqual(before);
    expect(Date.parse(lastUsedAt)).toBeLessThanOrEqual(Date.now());
    expect(Date.parse(lastUsedAt) % 60_000).toBe(0);
  });
});

describe('a JWT of the issuer', () => {
  test('writes in its project, uploads files, and retracts only reports of its subject', async () => {
    const [token, later, other] = [aJwt(), aJwt({ jti: 'later' }), aJwt({ sub: 'player-2' })];
    const filed = (await report(token)).json().id;
    const upload = await halfAnUpload(token, 2_000);

    expect((await post(token)).status).toBe(201);
    expect(await upload.answered).toBe(200);
    expect((await retract(other, filed)).status).toBe(403);
    expect((await retract(later, filed)).status).toBe(204);
  });

  test('is limited to its scopes and to projects of its tenant', async () => {
    const elsewhere = await shared.aProject();

    expect((await get(aJwt())).status).toBe(403);
    const refused = await post(aJwt({ questlog_tenant: elsewhere.tenantId }));
    expect([refused.status, refused.json().detail]).toEqual([
      401,
      'the project that the JWT names does not belong to the tenant that it names',
    ]);
    expect((await post(aJwt({ questlog_project: anUnknownId() }))).status).toBe(401);
  });

  test('ends at its exp, with its streams and running uploads', async () => {
    // Creates a token that expires in about three seconds. Its `exp` is in the past, within the tolerance for clock skew.
    const token = aJwt({ exp: Math.floor(Date.now() / 1000) - 26, scope: 'read reports:write' });
    const stream = await openStream(token);
    const upload = await halfAnUpload(token);

    await stream.ended;
    expect(await upload.answered).not.toBe(200);
    expect((await get(token)).json().detail).toMatch(/has expired$/);
  });

  test('writes only for the builds that it names', async () => {
    const [mine, other] = [anUnknownId(), anUnknownId()];
    const jwt = aJwt({ questlog_builds: mine });
    const post = (buildId: string) => game.post(anEvent({ buildId }), bearer(jwt).headers);

    expect([(await post(mine)).status, (await post(other)).json().code]).toEqual([201, 'build_not_allowed']);
  });

  test('writes nothing while its project is suspended', async () => {
    const project = `/admin/projects/${game.projectId}`;
    await shared.product.admin('PATCH', project, { suspended: true });
    const refused = await post(aJwt());
    await shared.product.admin('PATCH', project, { suspended: false });

    expect([refused.status, refused.json().code]).toEqual([403, 'suspended']);
    expect((await post(aJwt())).status).toBe(201);
  });

  test('that is invalid gets a 401 with the reason; paths without a token are answered', async () => {
    const none = aJwt({}, { alg: 'none' });
    const refused = await post(none);

    expect([refused.status, refused.json().detail]).toEqual([
      401,
      'the access token is not a valid JWT: it is signed with an algorithm that is not allowed here',
    ]);
    expect((await fetch(`${shared.product.credentials.baseUrl}/health`, bearer(none))).status).toBe(200);
  });

  test('is never in the log', () => {
    const said = `${shared.product.stdout()}${shared.product.stderr()}`;

    expect(sentJwts.length).toBeGreaterThan(0);
    expect(sentJwts.flatMap((text) => text.split('.')).filter((part) => said.includes(part))).toEqual([]);
  });
});

function rotate(id: string, body: object): Promise<Answer> {
  return shared.product.admin('POST', `/admin/tokens/${id}/rotate`, body);
}

// biome-ignore lint/suspicious/noExplicitAny: a test reads responses of any shape.
async function listed(id: string): Promise<any> {
  const all: { id: string }[] = (await shared.product.admin('GET', '/admin/tokens')).json();
  return all.find((one) => one.id === id);
}

function post(token: string): Promise<Answer> {
  return game.post(anEvent(), { Authorization: `Bearer ${token}` });
}

function report(token: string): Promise<Answer> {
  const body = { sessionId: game.sessionId, content: { title: 'It broke' } };
  return game.report(body, { Authorization: `Bearer ${token}` });
}

function retract(token: string, id: string): Promise<Answer> {
  return game.request('DELETE', `/v1/reports/${id}`, bearer(token));
}

function get(token: string): Promise<Answer> {
  return game.request('GET', '/v1/quota', bearer(token));
}

/** Calls `ask` from four concurrent callers until a response is not a 201. */
function underLoad(ask: () => Promise<Answer>) {
  let [isOver, taken] = [false, 0];
  const refused: Answer[] = [];
  const caller = async (): Promise<void> => {
    while (!isOver) {
      const answer = await ask();
      if (answer.status === 201) taken += 1;
      else {
        refused.push(answer);
        isOver = true;
      }
    }
  };
  const untilRefused = Promise.all(Array.from({ length: 4 }, caller)).then(() => refused);
  return {
    untilRefused,
    taken: () => taken,
    stop: () => {
      isOver = true;
    },
  };
}

/** Opens a stream. Resolves when the stream is open. */
async function openStream(token: string): Promise<{ readonly ended: Promise<string> }> {
  const { baseUrl } = shared.product.credentials;
  const stream = await fetch(`${baseUrl}/v1/linked-events?from=end`, {
    ...bearer(token),
  });
  expect(stream.status).toBe(200);
  return { ended: stream.text() };
}

/** Starts to upload a file of 2,000 bytes. Resolves when `bytes` bytes are sent. The remaining bytes are never sent. */
async function halfAnUpload(
  token: string,
  bytes = 1_000,
): Promise<{ readonly answered: Promise<number | 'cut off'> }> {
  const asked = await game.request('POST', '/v1/ingest/uploads', {
    ...bearer(token),
    body: { fileName: 'game.log', mimeType: 'text/plain', attachmentType: 'log_bundle', sizeBytes: 2_000 },
  });
  expect(asked.status, asked.text()).toBe(201);
  const headers = { 'Content-Type': 'text/plain', 'Content-Length': '2000' };
  const sent = request(asked.json().uploadUrl, { method: 'PUT', headers });
  const answered = new Promise<number | 'cut off'>((resolve) => {
    sent.once('response', (answer) => resolve(answer.statusCode ?? 0));
    sent.once('error', () => resolve('cut off'));
  });
  await new Promise((resolve) => sent.write('x'.repeat(bytes), resolve));
  return { answered };
}

function bearer(token: string): { headers: { Authorization: string } } {
  return { headers: { Authorization: `Bearer ${token}` } };
}

const sentJwts: string[] = [];

function aJwt(claims: object = {}, header: object = {}): string {
  const base64 = (value: object): string => Buffer.from(JSON.stringify(value)).toString('base64url');
  const signed = [
    base64({ alg: 'ES256', kid: 'one', ...header }),
    base64({
      ...{ iss: ISSUER, aud: 'questlog', sub: 'player-1', exp: Math.floor(Date.now() / 1000) + 600 },
      ...{ questlog_project: game.projectId, scope: 'events:write reports:write', ...claims },
    }),
  ].join('.');
  const signature = sign('sha256', Buffer.from(signed), { key: privateKey, dsaEncoding: 'ieee-p1363' });
  const text = `${signed}.${signature.toString('base64url')}`;
  sentJwts.push(text);
  return text;
}
