/** Compares the hot route with Koa alone: response bytes, ledger, counts, and metrics, for ordinary and unusual requests. */
import type { IncomingMessage } from 'node:http';
import { connect } from 'node:net';
import { text } from 'node:stream/consumers';
import { gzipSync } from 'node:zlib';
import { emptyDirectory, sha256Hex } from '@questlog/runtime/directory/directory';
import { openAddressLimits, parseTrustedProxies } from '@questlog/runtime/http/limits/addresses';
import { Rejected } from '@questlog/runtime/http/rejected';
import { RecordTooLarge } from '@questlog/runtime/log/log';
import { Unavailable } from '@questlog/runtime/process/errors';
import { listen } from '@questlog/runtime/process/listener/listen';
import { silentLogger } from '@questlog/runtime/process/logger';
import { createMetricsRegistry } from '@questlog/runtime/process/metrics';
import type { Switch, Token } from '@questlog/schemas/topics/directoryEntry';
import { eventsAccepted } from '@questlog/schemas/topics/eventsAccepted';
import { expect, onTestFinished, test } from 'vitest';
import { EventBatch } from '../events/eventBatch.ts';
import { OwnAppends } from '../events/ownAppends.ts';
import { openReplays } from '../events/replays.ts';
import { RandomPool } from '../events/storeEvents.ts';
import { openBodyLimits } from '../limits/fairSharing.ts';
import { openLimits } from '../limits/limits.ts';
import { ingestMetrics } from '../metrics.ts';
import type { RejectedRequest } from '../rejections/rejections.ts';
import { authorizer } from './authenticate.ts';
import { hotRoute } from './hotRoute.ts';
import { gamesHandler, type PublicAppDeps, publicApp } from './publicApp.ts';

const NOW_MS = Date.UTC(2026, 10, 21, 12);
const SESSION = '7846b5f4-39dd-4381-b200-dbc9f59749ad';
const BUILD = '0f8fad5b-d9cb-469f-a165-70867728950e';
const KEY = '019a9c36-2c00-7000-8000-000000000001';
const PATH = '/v1/ingest/events';

const event = { sessionId: SESSION, eventType: 'checkpoint', payload: { level: 3 } };
const one = JSON.stringify(event);

interface Sent {
  readonly method?: string;
  readonly target?: string;
  readonly as?: string;
  readonly headers?: Readonly<Record<string, string | undefined>>;
  readonly body?: string | Buffer;
  /** Bytes that replace everything after the head. */
  readonly raw?: string | Buffer;
}

const lenient = { Prefer: 'handling=lenient' };
const strict = { Prefer: 'handling=strict' };
const typed = (eventType: string) => JSON.stringify({ ...event, eventType });
const [bad, unknown] = [{ eventType: 7 }, { ...event, evnetType: 'x', more: 1 }];

/** Requests that need no Koa. */
const ORDINARY: Readonly<Record<string, Sent>> = {
  'one event': { body: one },
  'one event in revision A': { as: 'ofA', body: one },
  'a batch': { body: JSON.stringify([event, event, { eventType: 'x', occurredAt: '2026-11-21' }]) },
  'the id of the request': { body: one, headers: { 'X-Request-Id': 'run-7.1' } },
  'an invalid request id': { body: one, headers: { 'X-Request-Id': 'a b' } },
  'a key': { body: one, headers: { 'Idempotency-Key': `"${KEY}"` } },
  'the same key again': { body: one, headers: { 'Idempotency-Key': KEY } },
  'lenient, and nothing bad': { body: one, headers: lenient },
  'strict, and nothing unknown': { body: one, headers: strict },
  'an unknown preference': { body: one, headers: { Prefer: 'respond-async' } },
  'a text that is not ASCII': { body: typed('Dünen und 沙丘 😀') },
  'an answer that is not small': {
    body: JSON.stringify({ ...event, payload: { text: 'ü'.repeat(40_000) } }),
  },
  'another type of the same': { body: one, headers: { 'Content-Type': 'Application/JSON ; charset=utf-8' } },
  gzip: { body: gzipSync(one), headers: { 'Content-Encoding': 'gzip' } },
  chunks: {
    headers: { 'Content-Length': undefined, 'Transfer-Encoding': 'chunked' },
    raw: `5\r\n${one.slice(0, 5)}\r\n${(one.length - 5).toString(16)}\r\n${one.slice(5)}\r\n0\r\n\r\n`,
  },
  'HTTP/1.1 that closes': { body: one, headers: { Connection: 'close' } },
  'a time a day ahead': { body: JSON.stringify({ ...event, occurredAt: '2026-11-22T12:00:00Z' }) },
  'times before 2015 and without a zone': {
    body: JSON.stringify([
      { ...event, occurredAt: '1970-01-01T00:00:00.000Z' },
      { ...event, occurredAt: '2026-11-21T12:00' },
    ]),
  },
  'what a switch samples': { as: 'switched', body: typed('sampled') },
  'a token for one build': { as: 'ofBuild', body: JSON.stringify({ ...event, buildId: BUILD }) },
  'a limit that is not met': { as: 'limited', body: one },
};

/** Requests that are rejected completely or partly, and requests with fields that are reported. */
const REFUSED: Readonly<Record<string, Sent>> = {
  'lenient, with a bad one': { body: JSON.stringify([event, bad]), headers: lenient },
  'unknown fields': { body: JSON.stringify([unknown]) },
  'unknown fields, strict': { body: JSON.stringify([unknown]), headers: strict },
  'unknown fields, with a key, lenient': {
    body: JSON.stringify([unknown, bad]),
    headers: { ...lenient, 'Idempotency-Key': KEY.replace('1', '2') },
  },
  'bad fields': { body: JSON.stringify([bad, event, 7]) },
  'no token': { body: one, headers: { Authorization: undefined } },
  'what is no token': { body: one, headers: { Authorization: 'Basic x' } },
  'an unknown token': { as: 'nobody', body: one },
  'a token with a dot': { as: 'a.b.c', body: one },
  'a JWT that is refused': { as: 'refused.b.c', body: one },
  'a token that has expired': { as: 'expired', body: one },
  'another scope': { as: 'reader', body: one },
  'another build': { as: 'ofBuild', body: JSON.stringify({ ...event, buildId: SESSION }) },
  'a project that is suspended': { as: 'suspended', body: one },
  'a limit that is met': { as: 'limited', body: one },
  'a limit of bytes without a length': {
    as: 'fewBytes',
    headers: { 'Content-Length': undefined, 'Transfer-Encoding': 'chunked' },
    raw: `${one.length.toString(16)}\r\n${one}\r\n0\r\n\r\n`,
  },
  'a limit of an address': { as: 'fromOneAddress', body: one },
  'that limit again': { as: 'fromOneAddress', body: one },
  'what a switch refuses': { as: 'switched', body: typed('refused') },
  'another type': { body: one, headers: { 'Content-Type': 'text/plain' } },
  'no type': { body: one, headers: { 'Content-Type': undefined } },
  'another coding': { body: one, headers: { 'Content-Encoding': 'compress' } },
  'a broken coding': { body: one, headers: { 'Content-Encoding': 'gzip' } },
  'no JSON': { body: '{"eventType"' },
  'no UTF-8': { body: Buffer.from([0x22, 0xff, 0x22]) },
  'an empty body': { body: '' },
  'an empty array': { body: '[]' },
  'too many': { body: JSON.stringify(Array(201).fill(event)) },
  'a body that is too large': { headers: { 'Content-Length': String(9 * 1024 * 1024) }, raw: '' },
  'a session that is unknown': { body: JSON.stringify({ ...event, sessionId: BUILD }) },
  'no session in revision A': { as: 'ofA', body: '{"eventType":"x"}' },
  'an invalid key': { body: one, headers: { 'Idempotency-Key': 'x' } },
  'a key with another body': { body: typed('other'), headers: { 'Idempotency-Key': KEY } },
  'a log that is away': { body: typed('away') },
  'a record that is too large': { body: typed('large') },
  'a bug': { body: typed('bug') },
};

const UNUSUAL: Readonly<Record<string, Sent>> = {
  'Expect: 100-continue': { body: one, headers: { Expect: '100-continue' } },
  'Expect: 100-continue, and no token': {
    raw: '',
    headers: { Expect: '100-continue', Authorization: undefined },
  },
  'Expect of something else': { body: one, headers: { Expect: 'x' } },
  'an origin': { body: one, headers: { Origin: 'https://game.example' } },
  'another origin': { body: one, headers: { Origin: 'https://other.example' } },
  'an origin, and a problem': { body: '[', headers: { Origin: 'https://game.example' } },
  'a query': { target: `${PATH}?a=1`, body: one },
  'a slash behind it': { target: `${PATH}/`, body: one },
  'a whole address': { target: `http://game.example${PATH}`, body: one },
  'upper case': { target: PATH.toUpperCase(), body: one },
  'more behind it': { target: `${PATH}/x`, body: one },
  GET: { method: 'GET' },
  HEAD: { method: 'HEAD' },
  PUT: { method: 'PUT', body: one },
  DELETE: { method: 'DELETE' },
  OPTIONS: { method: 'OPTIONS' },
  'a preflight': {
    method: 'OPTIONS',
    headers: { Origin: 'https://game.example', 'Access-Control-Request-Method': 'POST' },
  },
  'HTTP that cannot be': { body: one, headers: { 'Transfer-Encoding': 'gzip' } },
};

const LISTED = { corsOrigins: ['https://game.example'], jwts: aVerifier() };

test.each([
  ['every page may read, and no JWTs', {}],
  ['some pages may read, and JWTs', LISTED],
])('responds exactly as Koa does: %s', async (_, settings) => {
  const [hot, koa] = [aGame(settings), aGame(settings)];
  const askHot = await aListener(gamesHandler(hot.deps));
  const askKoa = await aListener(publicApp(koa.deps).callback());

  for (const [name, sent] of Object.entries({ ...ORDINARY, ...REFUSED, ...UNUSUAL })) {
    expect([name, masked(await askHot(sent))]).toEqual([name, masked(await askKoa(sent))]);
    expect(hot.noted()).toEqual(koa.noted());
  }
  expect(await hot.counted()).toEqual(await koa.counted());
});

test('passes neither ordinary nor rejected requests to Koa', async () => {
  const { deps } = aGame();
  const handedOver: unknown[] = [];
  const koa = publicApp(deps).callback();
  const handler = hotRoute(deps, authorizer(deps), (request, response) => {
    if (request.url === PATH) handedOver.push(request.headers);
    void koa(request, response);
  });
  const ask = await aListener(handler);

  for (const sent of Object.values(ORDINARY)) expect(await ask(sent)).toMatch(/^HTTP\/1.1 20[017] /);
  for (const sent of Object.values(REFUSED)) expect(await ask(sent)).toMatch(/^HTTP\/1.1 [245]/);
  expect(handedOver).toEqual([]);
});

/** Sends a request, and a second request that ends the connection. Returns all received bytes. */
async function aListener(handler: Parameters<typeof listen>[0]) {
  const at = { host: '127.0.0.1', port: 0, settings: { host: 'HOST', port: 'PORT' } };
  const listener = await listen(handler, at);
  onTestFinished(() => listener.close());
  return async ({ method = 'POST', target = PATH, as = 'ofB', headers, body = '', raw }: Sent) => {
    const all = {
      Host: 'game.example',
      Authorization: `Bearer ${as}`,
      'Content-Type': 'application/json',
      'Content-Length': String(Buffer.byteLength(body)),
      ...headers,
    };
    const lines = Object.entries(all).flatMap(([name, value]) =>
      value === undefined ? [] : `${name}: ${value}\r\n`,
    );
    const socket = connect(listener.port, '127.0.0.1');
    onTestFinished(() => void socket.destroy());
    socket.write(`${method} ${target} HTTP/1.1\r\n${lines.join('')}\r\n`);
    socket.write(raw ?? body);
    const isLast = headers?.['Connection'] === 'close';
    if (!isLast) socket.write('GET /health HTTP/1.1\r\nHost: game.example\r\nConnection: close\r\n\r\n');
    return await text(socket.setEncoding('latin1'));
  };
}

/** Masks the parts of a response that differ between any two responses. */
function masked(answer: string): string {
  return answer
    .replace(/^Date: .*$/gm, 'Date')
    .replace(/[0-9a-f]{8}-[0-9a-f]{4}-[78][0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}/g, 'id')
    .replace(/(?<=X-Request-Id: |urn:uuid:|"instance":")[\w:-]+/g, 'request');
}

function aVerifier(): PublicAppDeps['jwts'] {
  return {
    isJwt: (token) => token.includes('.'),
    verify: async (token) => {
      if (token.startsWith('refused')) throw new Rejected('unauthorized', 'it is not signed');
      return {
        id: 'jwt',
        projectId: idOf('ofB'),
        scopes: ['events:write'],
        buildIds: null,
        endsAtMs: NOW_MS + 1,
      };
    },
  };
}

/** Creates all components that the listener uses, with a log that accepts all records. */
function aGame(settings: Partial<PublicAppDeps> = {}) {
  const registry = createMetricsRegistry();
  const metrics = ingestMetrics(registry);
  const clock = { now: () => NOW_MS };
  const received: PublicAppDeps['received'] = [];
  const rejects: Pick<RejectedRequest, 'endpoint' | 'token' | 'failedAt' | 'rejections'>[] = [];
  const uses: string[] = [];
  const unauthenticated: unknown[] = [];
  const limits = openLimits(clock, metrics, () => 1);
  const store = { query: async () => [] };
  const ingest = {
    ...{ clock, metrics, received, limits, store, partitions: 12, random: new RandomPool() },
    ownAppends: new OwnAppends(() => undefined),
    sessions: {
      find: async (_: string, __: string, ids: readonly string[]) =>
        new Map(ids.filter((id) => id === SESSION).map((id) => [id, { lane: 0, buildId: null, player: 1 }])),
      peek: () => undefined,
    },
    reports: {
      reportsOf: () => [],
      linkableReports: () => [],
      hasNamedEvents: () => false,
      hasReports: async () => false,
    },
    replays: openReplays({ store, clock, projection: { caughtUp: async () => undefined } } as never),
    quotas: { ledgerIfOpen: () => undefined },
    batch: new EventBatch(),
    codec: { schemaId: 0 },
    log: { append: appendUnlessAway },
  };
  const deps = {
    ...{ metrics, clock, received, limits, ingest, hasDocs: false, corsOrigins: '*', defaultRevision: 'B' },
    ...{ logger: silentLogger, directory: aDirectory(), uploads: {}, reads: {}, reports: {} },
    rejections: {
      record: ({ principal, body, ...rest }: RejectedRequest) =>
        rejects.push({ ...rest, ...{ tenantId: principal?.tenant.id, body: body?.toString('hex') } }),
    },
    uses: { note: (tokenId: string) => uses.push(tokenId) },
    unauthenticated: {
      rejectionOf: () => undefined,
      count: ({ url }: IncomingMessage) => unauthenticated.push(url),
    },
    addresses: openAddressLimits(clock, metrics, parseTrustedProxies('')),
    bodies: openBodyLimits(metrics.bodyBytesInFlight),
    ...settings,
  } as unknown as PublicAppDeps;
  return {
    deps,
    noted: () => ({ received, rejects, uses, unauthenticated }),
    /** Returns the metrics without durations. */
    counted: async () => {
      const lines = (await registry.metrics()).split('\n');
      return lines.filter((line) => /^questlog_(?!.*seconds_(bucket|sum))/.test(line));
    },
  };
}

async function appendUnlessAway(_: string, __: number, [record]: readonly { readonly value: Buffer }[]) {
  const message = record && eventsAccepted.type.fromBuffer(record.value.subarray(5));
  const type = message?.events[0]?.eventType;
  if (type === 'away') throw new Unavailable('the log is away');
  if (type === 'large') throw new RecordTooLarge('events', 2, 1);
  if (type === 'bug') throw new Error('a bug');
  return { baseOffset: 0 };
}

/** Returns a directory with a project and a tenant per token; a token's text is its name. */
function aDirectory() {
  const directory = emptyDirectory();
  const limits = { eventsPerSecond: null, requestsPerSecond: null, bytesPerSecond: null, burstSeconds: 1 };
  const add = (name: string, token: Partial<Token> = {}, project: object = {}): void => {
    const id = idOf(name);
    const named = { id, name, createdAt: 1 };
    directory.tenants.set(id, { ...named, monthlySoftQuota: null, spread: 1 });
    directory.projects.set(id, { ...named, tenantId: id, revision: null, ...project });
    const sha256 = sha256Hex(name);
    directory.tokens.set(id, {
      ...{ ...named, projectId: id, sha256, scopes: ['events:write'], expiresAt: null },
      ...token,
    });
    directory.tokenIdsBySha256.set(sha256, id);
  };
  const aSwitch: Switch = {
    ...{ eventType: 'refused', buildId: null, playerShare: null, action: 'reject', sampleRate: null },
    ...{ until: null, reason: 'too many' },
  };
  add('ofB');
  add('ofA', {}, { revision: 'A' });
  add('reader', { scopes: ['read'] });
  add('expired', { expiresAt: NOW_MS });
  add('ofBuild', { buildIds: [BUILD] });
  add('fromOneAddress', { addressRequestsPerSecond: 0.1 });
  add('suspended', {}, { suspended: true });
  add('limited', {}, { limits: { ...limits, requestsPerSecond: 1 } });
  add('fewBytes', {}, { limits: { ...limits, bytesPerSecond: 1 } });
  add(
    'switched',
    {},
    {
      switches: [aSwitch, { ...aSwitch, eventType: 'sampled', action: 'sample', sampleRate: 0 }],
    },
  );
  return directory;
}

function idOf(name: string): string {
  return `00000000-0000-4000-9000-${Buffer.from(name.padEnd(6).slice(0, 6)).toString('hex')}`;
}
