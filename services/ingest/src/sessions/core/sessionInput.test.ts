/** Tests the fields of a session's registration, and their problems. */
import { randomUUID } from 'node:crypto';
import { Rejected } from '@questlog/runtime/http/rejected';
import { buildIdOf } from '@questlog/schemas/buildId';
import { expect, test } from 'vitest';
import { readSessionInput, type SessionDraft } from './sessionInput.ts';

const PROJECT = randomUUID();
const BUILD = { version: '1.4.2', platform: 'Web', gitCommit: '5d0c1f7e9a2b', channel: 'dev' };

function read(body: unknown): SessionDraft {
  return readSessionInput(
    Buffer.from(typeof body === 'string' ? body : JSON.stringify(body)),
    PROJECT,
    false,
  );
}

function refusalOf(body: unknown): Rejected {
  try {
    read(body);
  } catch (error) {
    if (error instanceof Rejected) return error;
    throw error;
  }
  throw new Error('the body was taken');
}

test('reads what the plugin sends', () => {
  const metadata = '{"currentScene":"Arena","locale":"","startedAt":"2026-11-22T03:23:56"}';
  const build = '{"channel":"dev","gitCommit":"5d0c1f7e9a2b","platform":"Web","version":"1.4.2"}';
  expect(read(`{"build":${build},"metadata":${metadata},"player":{"deviceId":""}}`)).toEqual({
    ignored: [],
    times: [],
    id: null,
    buildId: buildIdOf(PROJECT, BUILD),
    startedAt: null,
    build: BUILD,
    playerExternalId: null,
    playerDeviceId: null,
    metadata: Buffer.from(metadata),
  });
});

test('keeps every byte of the metadata', () => {
  const metadata = '{ "a":1.0,"a":-0, "é":"\\ud800" ,"n":18446744073709551615,"e":1e400 }';
  expect(read(`{"metadata" : ${metadata} }`).metadata?.toString()).toBe(metadata);
});

test('an empty string or null in an optional field counts as omitted', () => {
  const { version, platform } = BUILD;
  const empty = { id: '', startedAt: '', buildId: '', player: { externalId: '', deviceId: '' } };
  expect(read({ ...empty, build: { version, platform, gitCommit: '', channel: '' } })).toEqual(
    read({ build: { version, platform, gitCommit: null, channel: null } }),
  );
  expect(
    read({ id: null, startedAt: null, buildId: null, build: null, player: null, metadata: null }),
  ).toEqual(read({}));
});

test('accepts a build with its own id, and rejects another id', () => {
  const own = buildIdOf(PROJECT, BUILD);
  expect(read({ build: BUILD, buildId: own.toUpperCase() }).buildId).toBe(own);
  expect(refusalOf({ build: BUILD, buildId: randomUUID() }).errors).toEqual([
    { index: 0, pointer: '/buildId', code: 'field_invalid', detail: expect.stringContaining(own) },
  ]);
});

test('accepts a build by its id alone', () => {
  const buildId = randomUUID();
  expect(read({ buildId: buildId.toUpperCase() })).toMatchObject({ buildId, build: null });
});

test('accepts a body of 1 MiB, and rejects one more byte with 413', () => {
  const body = (bytes: number): string => `{"x":"${'x'.repeat(bytes - '{"x":""}'.length)}"}`;
  expect(read(body(1024 * 1024)).ignored).toEqual(['/x']);
  expect(refusalOf(body(1024 * 1024 + 1))).toMatchObject({
    code: 'body_too_large',
    message: expect.stringContaining('1048576'),
  });
});

const LONG = 'x'.repeat(256);
const DEEP = `${'['.repeat(65)}${']'.repeat(65)}`;

test.each<[what: string, body: unknown, pointer: string, detail: RegExp]>([
  ['an invalid time', { startedAt: 'noon' }, '/startedAt', /^startedAt .* ISO 8601/],
  ['a build that is no object', { build: '1.4.2' }, '/build', /object/],
  [
    'a build without a version',
    { build: { platform: 'Web' } },
    '/build/version',
    /build.version is required/,
  ],
  [
    'a build without a platform',
    { build: { version: '1' } },
    '/build/platform',
    /build.platform is required/,
  ],
  ['an empty version', { build: { ...BUILD, version: '' } }, '/build/version', /fewer than 1 char/],
  ['a long version', { build: { ...BUILD, version: LONG } }, '/build/version', /more than 255 char/],
  ['a version that is a number', { build: { ...BUILD, version: 1.4 } }, '/build/version', /string/],
  ['a long platform', { build: { ...BUILD, platform: LONG } }, '/build/platform', /more than 255 char/],
  ['a long commit', { build: { ...BUILD, gitCommit: LONG } }, '/build/gitCommit', /more than 255 char/],
  [
    'an invalid channel',
    { build: { ...BUILD, channel: 'live' } },
    '/build/channel',
    /dev, qa, alpha, beta, staging, prod/,
  ],
  ['a player that is no object', { player: ['p'] }, '/player', /object/],
  ['a long external id', { player: { externalId: LONG } }, '/player/externalId', /more than 255 char/],
  ['an external id that is a number', { player: { externalId: 7 } }, '/player/externalId', /string/],
  ['a long device id', { player: { deviceId: LONG } }, '/player/deviceId', /more than 255 char/],
  ['metadata that is no object', { metadata: [] }, '/metadata', /object/],
  ['metadata that nests deep', `{"metadata":{"a":${DEEP}}}`, '/metadata', /at most 64 levels/],
  ['half a surrogate pair', '{"player":{"externalId":"\\ud83d"}}', '/player/externalId', /surrogate/],
  ['two builds', '{"build":null,"build":null}', '/build', /more than once/],
  [
    'two versions',
    '{"build":{"version":"1","version":"2","platform":"x"}}',
    '/build/version',
    /build.version occurs/,
  ],
])('%s is a 400 that names the field', (_, body, pointer, detail) => {
  const { code, errors } = refusalOf(body);
  expect(code).toBe('invalid_request');
  expect(errors).toEqual([expect.objectContaining({ pointer, detail: expect.stringMatching(detail) })]);
});

test('accepts 255 characters of any byte length', () => {
  const text = `${'任'.repeat(254)}🗡`;
  expect(read({ player: { externalId: text } }).playerExternalId).toBe(text);
});

test('accepts 64 KiB of metadata, rejects one more byte with 413, and prefers 400', () => {
  const metadata = (bytes: number) => ({ x: 'x'.repeat(bytes - '{"x":""}'.length) });
  expect(read({ metadata: metadata(65_536) }).metadata).toHaveLength(65_536);
  const tooLarge = refusalOf({ metadata: metadata(65_537) });
  expect(tooLarge).toMatchObject({ code: 'field_too_large', message: expect.stringContaining('65536') });
  expect(tooLarge.errors).toMatchObject([{ pointer: '/metadata' }]);
  const both = refusalOf({ id: 'x', metadata: metadata(65_537) });
  expect(both.code).toBe('invalid_request');
  expect(both.errors?.map(({ pointer }) => pointer).toSorted()).toEqual(['/id', '/metadata']);
});
