import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { ManualClock } from '../log/embedded/testing/testLog.ts';
import { StartRefused, Unavailable } from '../process/errors.ts';
import { silentLogger } from '../process/logger.ts';
import { UNKNOWN_ID_CACHE_MS } from './confluentRegistry.ts';
import { aRegistryStub, errorResponse, registryAt } from './testing/registryStub.ts';

const SCHEMA = JSON.stringify({
  type: 'record',
  name: 'R',
  fields: [{ name: 'payload', type: { type: 'string', rawJson: true } }],
});

test('sets the compatibility before it registers a schema, and a second start gets the same id', async () => {
  const stub = await aRegistryStub();
  const first = await registryAt(stub.url).register('s', SCHEMA, 'FULL_TRANSITIVE');
  expect(stub.requests.findIndex(({ method }) => method === 'PUT')).toBeLessThan(
    stub.requests.findIndex(({ method }) => method === 'POST'),
  );
  expect(stub.levels.get('s')).toBe('FULL_TRANSITIVE');
  expect(await registryAt(stub.url).register('s', SCHEMA, 'FULL_TRANSITIVE')).toBe(first);
});

test('logs no warning if another process sets the compatibility of a new subject at the same time', async () => {
  const stub = await aRegistryStub();
  stub.respond = ({ method }) => {
    if (method !== 'PUT') return undefined;
    stub.levels.set('s', 'FULL_TRANSITIVE');
    return errorResponse(409, 409, 'conflict');
  };
  const warned: string[] = [];
  const logger = { ...silentLogger, warn: (event: string) => warned.push(event) };
  expect(await registryAt(stub.url, { logger }).register('s', SCHEMA, 'FULL_TRANSITIVE')).toBe(1);
  expect(warned).toEqual([]);
});

test('adds its prefix to every subject', async () => {
  const stub = await aRegistryStub();
  await registryAt(stub.url, { subjectPrefix: 'staging.' }).register('s', SCHEMA, 'BACKWARD_TRANSITIVE');
  expect([...stub.levels.keys()]).toEqual(['staging.s']);
  expect(stub.countOf('/subjects/staging.s/versions')).toBe(1);
});

test('accepts a stricter compatibility that an operator has set', async () => {
  const stub = await aRegistryStub();
  stub.levels.set('s', 'FULL_TRANSITIVE');
  expect(await registryAt(stub.url).register('s', SCHEMA, 'BACKWARD_TRANSITIVE')).toBe(1);
  expect(stub.levels.get('s')).toBe('FULL_TRANSITIVE');
});

test.each([
  ['NONE', 'BACKWARD_TRANSITIVE'],
  ['BACKWARD', 'BACKWARD_TRANSITIVE'],
  ['FULL', 'BACKWARD_TRANSITIVE'],
  ['BACKWARD_TRANSITIVE', 'FULL_TRANSITIVE'],
] as const)('refuses to start under %s where %s is needed', async (current, needed) => {
  const stub = await aRegistryStub();
  stub.levels.set('s', current);
  const rejected = registryAt(stub.url).register('s', SCHEMA, needed);
  await expect(rejected).rejects.toThrow(
    new StartRefused(
      `the subject s has the compatibility ${current} in the schema registry; set it to ${needed}`,
    ),
  );
  expect(stub.schemas).toEqual([]);
});

test('rejects a start with an incompatible schema, with the registry’s reason on one line', async () => {
  const stub = await aRegistryStub();
  stub.respond = ({ method }) =>
    method === 'POST' ? errorResponse(409, 409, 'Schema being registered\nis incompatible') : undefined;
  const error = await rejectionOf(registryAt(stub.url).register('s', SCHEMA, 'FULL_TRANSITIVE'));
  // The stub also rejects the search for the schema's id, because the subject does not have the schema.
  expect(error.message).toMatch(/^the schema registry rejects a schema for s: .*registered is incompatible$/);
});

test('two concurrent registrations of a schema get one id, also after a conflict', async () => {
  const stub = await aRegistryStub();
  await registryAt(stub.url).register('s', SCHEMA, 'FULL_TRANSITIVE');
  stub.respond = ({ path }) =>
    path.endsWith('/versions') ? errorResponse(409, 40901, 'conflict') : undefined;
  expect(await registryAt(stub.url).register('s', SCHEMA, 'FULL_TRANSITIVE')).toBe(1);
});

test.each([401, 403])(
  'rejects a start at once if the registry rejects its credentials (%i)',
  async (status) => {
    const stub = await aRegistryStub();
    stub.respond = () => ({ status, body: '<html>no</html>' });
    const rejected = registryAt(stub.url, { startTimeoutMs: 60_000 }).register(
      's',
      SCHEMA,
      'FULL_TRANSITIVE',
    );
    await expect(rejected).rejects.toThrow(/rejects these credentials/);
  },
);

test('waits during its start for a registry that is starting', async () => {
  const stub = await aRegistryStub();
  stub.respond = () => (stub.requests.length < 3 ? { status: 503, body: '' } : undefined);
  const registry = registryAt(stub.url, { startTimeoutMs: 60_000 });
  expect(await registry.register('s', SCHEMA, 'FULL_TRANSITIVE')).toBe(1);
});

test('ends a start without a registry after the timeout, and names the registry without its password', async () => {
  const registry = registryAt('http://someone:pass%40word@127.0.0.1:9/sub/');
  const error = await rejectionOf(registry.register('s', SCHEMA, 'FULL_TRANSITIVE'));
  expect(error.message).toMatch(
    /^the schema registry at http:\/\/127\.0\.0\.1:9\/sub does not answer: .+0\.3 s$/,
  );
  expect(error.message).not.toMatch(/pass|someone/);
});

test('does not print an invalid address, because it may contain a password', () => {
  expect(() => registryAt('registry:secret@host')).toThrow(/must begin with http/);
  expect(() => registryAt('registry:secret@host')).not.toThrow(/secret/);
});

test('returns a schema’s text as registered, with one request for concurrent callers', async () => {
  const stub = await aRegistryStub();
  stub.schemas.push(SCHEMA);
  const registry = registryAt(stub.url);
  const found = await Promise.all(Array.from({ length: 100 }, () => registry.schemaById(1)));
  expect(new Set(found)).toEqual(new Set([SCHEMA]));
  await registry.schemaById(1);
  expect(stub.countOf('/schemas/ids/1')).toBe(1);
});

test('requests an unknown id once for 100 lookups, and again a minute later', async () => {
  const stub = await aRegistryStub();
  const clock = new ManualClock();
  const registry = registryAt(stub.url, { clock });
  for (let i = 0; i < 100; i++) expect(await registry.schemaById(1)).toBeUndefined();
  expect(stub.countOf('/schemas/ids/1')).toBe(1);
  stub.schemas.push(SCHEMA);
  clock.nowMs += UNKNOWN_ID_CACHE_MS;
  expect(await registry.schemaById(1)).toBe(SCHEMA);
});

test.each([
  ['a 404 of a proxy', { status: 404, body: '<html>default backend - 404</html>' }],
  ['a gateway that returns JSON', { status: 404, body: { message: 'no Route matched with those values' } }],
  ['a load balancer without a backend', { status: 502, body: '' }],
  ['too many requests', errorResponse(429, 42901, 'slow down')],
  ['revoked credentials', { status: 401, body: { error_code: 401, message: 'no' } }],
  ['an HTML page', { status: 200, body: '<html>log in</html>' }],
  ['a registry whose storage is unavailable', errorResponse(500, 50001, 'Error in the backend datastore')],
])('%s does not make an id unknown', async (_, answer) => {
  const stub = await aRegistryStub();
  stub.schemas.push(SCHEMA);
  const registry = registryAt(stub.url);
  stub.respond = () => answer;
  await expect(registry.schemaById(1)).rejects.toBeInstanceOf(Unavailable);
  stub.respond = () => undefined;
  expect(await registry.schemaById(1)).toBe(SCHEMA);
});

test('uses TLS with a configured certificate authority and credentials', async (context) => {
  const tls = selfSigned();
  if (tls === undefined) return context.skip('there is no openssl to make a certificate with');
  const stub = await aRegistryStub(tls);
  stub.respond = ({ authorization }) =>
    authorization === `Basic ${btoa('questlog:s3:cret')}` ? undefined : { status: 401, body: '' };
  const credentials = { username: 'questlog', password: 's3:cret' };
  const trusted = registryAt(stub.url, { caPem: tls.cert, ...credentials });
  expect(await trusted.register('s', SCHEMA, 'FULL_TRANSITIVE')).toBe(1);
  expect(await trusted.schemaById(1)).toBe(SCHEMA);
  const inUrl = stub.url.replace('//', '//questlog:s3%3Acret@');
  expect(await registryAt(inUrl, { caPem: tls.cert }).schemaById(1)).toBe(SCHEMA);
  const userInUrl = stub.url.replace('//', '//questlog@');
  const password = 's3:cret';
  expect(await registryAt(userInUrl, { password, caPem: tls.cert }).schemaById(1)).toBe(SCHEMA);
  await expect(
    registryAt(stub.url, { caPem: tls.cert }).register('s', SCHEMA, 'FULL_TRANSITIVE'),
  ).rejects.toThrow(/rejects these credentials/);
  await expect(registryAt(stub.url, credentials).schemaById(1)).rejects.toThrow(/certificate/);
});

async function rejectionOf(start: Promise<unknown>): Promise<StartRefused> {
  const error = await start.catch((thrown: unknown) => thrown);
  if (error instanceof StartRefused) return error;
  throw new Error('the start was not refused', { cause: error });
}

function selfSigned(): { key: string; cert: string } | undefined {
  const folder = mkdtempSync(join(tmpdir(), 'registry-tls-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const [key, cert] = [join(folder, 'key.pem'), join(folder, 'cert.pem')];
  const request = ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes'];
  const subject = ['-days', '2', '-subj', '/CN=127.0.0.1', '-addext', 'subjectAltName=IP:127.0.0.1'];
  try {
    execFileSync('openssl', [...request, ...subject, '-keyout', key, '-out', cert], { stdio: 'ignore' });
  } catch {
    return undefined;
  }
  return { key: readFileSync(key, 'utf8'), cert: readFileSync(cert, 'utf8') };
}
