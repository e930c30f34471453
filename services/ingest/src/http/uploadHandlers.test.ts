/** Tests the addresses of uploads, their expiry, and responses without a store. */
import { randomUUID } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import type { Principal } from '@questlog/runtime/directory/directory';
import { openFolderStore } from '@questlog/runtime/uploads/folderStore';
import type { UploadStore } from '@questlog/runtime/uploads/uploadStore';
import { UPLOAD_ADDRESS_LIFETIME_MS } from '@questlog/schemas/http/upload';
import { eventId } from '@questlog/schemas/uuid';
import { expect, onTestFinished, test, vi } from 'vitest';
import { put } from '../uploads/uploadStore.contract.ts';
import { listenForUploads, type UploadListenerOptions } from './uploadHandlers.testing.ts';

const principal = { project: { id: randomUUID() }, tenant: { id: 'one' } } as unknown as Principal;
const log = { attachmentType: 'log_bundle', fileName: 'game.log', mimeType: 'text/plain' };

test('accepts an address until it expires', async () => {
  let nowMs = Date.UTC(2026, 10, 22, 12);
  const { ask } = await aListener({ clock: { now: () => nowMs } });
  const { body } = await ask({});
  expect(body.expiresAt).toBe('2026-11-22T13:00:00.000Z');

  nowMs += UPLOAD_ADDRESS_LIFETIME_MS;
  const late = await fetch(body.uploadUrl, { method: 'PUT', headers: body.requiredHeaders, body: 'late' });
  expect(late.status).toBe(403);
  expect(await late.json()).toMatchObject({ code: 'invalid_upload_address' });
  nowMs -= 1;
  expect(await put(body.uploadUrl, 'text/plain', Buffer.from('just in time'))).toBe(200);
});

test('an address starts with the setting, or with the request’s host', async () => {
  const { ask, port } = await aListener({});
  const ofSetting = await aListener({ publicUrl: 'https://games.example.com/telemetry' });

  expect((await ofSetting.ask({})).body.uploadUrl).toMatch(
    /^https:\/\/games\.example\.com\/telemetry\/v1\/uploads\//,
  );
  for (const host of [`127.0.0.1:${port}`, 'studio.local:8080', '[::1]:8080', 'games.example.com']) {
    expect(new URL((await ask({ Host: host })).body.uploadUrl).host).toBe(host);
  }
});

test.each(['evil.example/x', 'user@evil.example', 'a b', 'a?x', 'a#x', '[x'])(
  'ignores an invalid Host: %j',
  async (host) => {
    const { ask, port } = await aListener({});
    expect(new URL((await ask({ Host: host })).body.uploadUrl).host).toBe(`127.0.0.1:${port}`);
  },
);

test('ignores a proxy’s headers in the address', async () => {
  const { ask, port } = await aListener({});
  const headers = {
    'X-Forwarded-Host': 'evil.example',
    'X-Forwarded-Proto': 'https',
    Forwarded: 'host=evil',
  };
  expect(new URL((await ask(headers)).body.uploadUrl).origin).toBe(`http://127.0.0.1:${port}`);
});

test.each(['goes on', 'waits'])(
  'ends a running upload when its token is revoked, while it %s',
  async (way) => {
    let [isValid, looks] = [true, 0];
    const arrived = Promise.withResolvers<void>();
    const look = (): boolean => {
      looks += 1;
      // The first check is at the head of the request, and the second check is at the first piece of the body.
      if (looks === 2) arrived.resolve();
      return isValid;
    };
    const { ask } = await aListener({ isValid: look });
    const { body } = await ask({});
    const sent = request(body.uploadUrl, { method: 'PUT', headers: body.requiredHeaders });
    const answered = new Promise<number | undefined>((resolve) => {
      sent.on('response', ({ statusCode }) => resolve(statusCode)).on('error', () => resolve(undefined));
    });
    sent.write('first');
    await arrived.promise;
    isValid = false;
    if (way === 'goes on') sent.end('rest');
    expect(await answered).not.toBe(200);

    isValid = true;
    const itself = new URL(`/v1/uploads/${body.uploadId}`, body.uploadUrl);
    expect((await fetch(itself)).status).toBe(404);
    sent.destroy();
  },
);

test('limits a tenant’s concurrent uploads at the store, and serves other tenants in between', async () => {
  const begun: (() => void)[] = [];
  const store = {
    describe: () => new Promise<void>((go) => begun.push(go)),
    address: async () => '',
  } as unknown as UploadStore;
  const { ask } = await aListener({ store });
  const answers = Array.from({ length: 40 }, () => ask({}));
  let most = 0;
  for (let made = 0; made < 40; made += 1) {
    await vi.waitFor(() => expect(begun.length).toBeGreaterThanOrEqual(Math.min(40, made + 15)), {
      interval: 5,
    });
    most = Math.max(most, begun.length - made);
    begun[made]?.();
  }
  expect((await Promise.all(answers)).map(({ status }) => status)).toEqual(Array(40).fill(201));
  expect(most).toBe(15);
});

test('stalled downloads of one tenant use at most half of the permits', async () => {
  const store = {
    find: async () => ({ description: log, sizeBytes: 2 }),
    read: async () => {
      const slow = new Readable({ read: () => {} });
      slow.push('1');
      return slow;
    },
  } as unknown as UploadStore;
  const caller = { project: { id: 'project' }, tenant: { id: 'greedy' } };
  const { port } = await aListener({ store, principal: caller as unknown as Principal });
  const address = `http://127.0.0.1:${port}/v1/uploads/${eventId(Date.now(), 0, Buffer.alloc(8))}`;
  const one = new AbortController();
  const held = await Promise.all(Array.from({ length: 32 }, () => fetch(address, { signal: one.signal })));
  expect(held.map(({ status }) => status)).toEqual(Array(32).fill(200));
  const tooMany = await fetch(address);
  expect([tooMany.status, tooMany.headers.get('retry-after')]).toEqual([503, expect.stringMatching(/^\d+$/)]);
  caller.tenant.id = 'other';
  const other = await fetch(address, { signal: one.signal });
  expect(other.status).toBe(200);

  caller.tenant.id = 'greedy';
  one.abort();
  await vi.waitFor(async () => expect((await fetch(address, { method: 'HEAD' })).status).toBe(200), {
    timeout: 20_000,
    interval: 5,
  });
});

test('names the missing setting if uploads are not configured', async () => {
  const { ask, port } = await aListener({ store: undefined });
  const { status, body } = await ask({});
  expect([status, body.code]).toEqual([501, 'uploads_not_set_up']);
  expect(body.detail).toContain('QUESTLOG_UPLOADS');
  expect((await fetch(`http://127.0.0.1:${port}/v1/uploads/${randomUUID()}`)).status).toBe(404);
  const address = `http://127.0.0.1:${port}/v1/uploads/${randomUUID()}?signature=x`;
  expect(await put(address, 'text/plain', Buffer.from('x'))).toBe(403);
});

/** Starts a listener on a folder, unless the options differ. `ask` requests an upload with these headers. */
async function aListener(options: Partial<UploadListenerOptions>) {
  const folder = mkdtempSync(join(tmpdir(), 'uploads-'));
  const store = await openFolderStore({ folder, signingKey: '' });
  const { port, close } = await listenForUploads({ store, principal, ...options });
  onTestFinished(async () => {
    await close();
    rmSync(folder, { recursive: true });
  });
  const ask = async (headers: Record<string, string>) => {
    const sent = request({
      ...{ host: '127.0.0.1', port, method: 'POST', path: '/v1/ingest/uploads' },
      headers: { 'Content-Type': 'application/json', ...headers },
    });
    sent.end(JSON.stringify(log));
    const answer = await new Promise<import('node:http').IncomingMessage>((resolve, reject) => {
      sent.on('response', resolve).on('error', reject);
    });
    return { status: answer.statusCode, body: JSON.parse(await text(answer)) };
  };
  return { ask, port };
}
