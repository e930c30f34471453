import { describe, expect, test } from 'vitest';
import { type GameOptions, start } from './client.ts';

describe('start()', () => {
  test.each<[string, object]>([
    ['url', { url: undefined }],
    ['url', { url: 'hello' }],
    ['url', { url: '127.0.0.1:8080' }],
    ['url', { url: 'localhost:8080' }],
    ['url', { url: 'ftp://telemetry.example' }],
    ['url', { url: 'https://user:secret@telemetry.example' }],
    ['url', { url: 'https://telemetry.example/?game=1' }],
    ['url', { url: new URL('https://telemetry.example') }],
    ['token', { token: undefined }],
    ['token', { token: '' }],
    ['token', { token: 'a token' }],
    ['token', { token: 'a-token\n' }],
    ['token', { token: 7 }],
    ['build', { build: '1.4.2' }],
    ['build.platform', { build: { version: '1.4.2' } }],
    ['build.version', { build: { version: 142, platform: 'Web' } }],
    ['build.version', { build: { version: '', platform: 'Web' } }],
    ['build.gitCommit', { build: { version: '1', platform: 'Web', gitCommit: 7 } }],
    ['build.channel', { build: { version: '1', platform: 'Web', channel: 'production' } }],
    ['player', { player: 'player-17' }],
    ['player.externalId', { player: { externalId: 17 } }],
    ['player.deviceId', { player: { deviceId: {} } }],
    ['metadata', { metadata: ['a'] }],
    ['consent', { consent: true }],
    ['queue', { queue: null }],
    ['queue.open', { queue: {} }],
    ['maxQueueBytes', { maxQueueBytes: '4 MiB' }],
    ['maxBatchEvents', { maxBatchEvents: 0 }],
    ['maxBatchEvents', { maxBatchEvents: null }],
    ['maxBatchEvents', { maxBatchEvents: 501 }],
    ['flushIntervalMs', { flushIntervalMs: Number.NaN }],
    ['endWithinMs', { endWithinMs: -1 }],
    ['onProblem', { onProblem: 'console' }],
    ['fetch', { fetch: 'fetch' }],
  ])('rejects a wrong %s: %j', async (name, wrong) => {
    const options = { url: 'https://telemetry.example', token: 'a-token', ...wrong } as GameOptions;
    await expect(start(options)).rejects.toThrow(new RegExp(`^start: ${name.replace('.', '\\.')} `));
  });

  test('accepts null and empty strings where a session accepts them', async () => {
    const build = { version: '1', platform: 'Web', gitCommit: '', channel: 'dev' } as const;
    const session = { build, player: { externalId: null, deviceId: '' }, metadata: null };
    const wired = { onProblem: () => {}, fetch: () => Promise.reject(new TypeError('not now')) };
    const options = { url: 'http://127.0.0.1:8080/questlog/', token: 'a-token', ...session, ...wired };
    const game = await start(options as unknown as GameOptions);
    expect(await game.end()).toBe(false);
  });

  test('rejects a call without options', async () => {
    await expect(start(undefined as unknown as GameOptions)).rejects.toThrow('start: options ');
  });
});
