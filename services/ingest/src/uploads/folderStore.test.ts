/** Runs the suite of upload stores on a folder. Also tests file modes, leftover files, and uploads that arrive twice. */
import { randomBytes } from 'node:crypto';
import { mkdirSync, mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { storageKey, type UploadTarget } from '@questlog/runtime/uploads/core/uploadKey';
import { openFolderStore } from '@questlog/runtime/uploads/folderStore';
import type { UploadStore } from '@questlog/runtime/uploads/uploadStore';
import { describe, expect, onTestFinished, test } from 'vitest';
import { listenForUploads } from '../http/uploadHandlers.testing.ts';
import { aTarget, put, uploadStoreContract } from './uploadStore.contract.ts';

async function aFolder(): Promise<{
  store: UploadStore;
  folder: string;
  baseUrl: string;
  close(): Promise<void>;
}> {
  const folder = mkdtempSync(join(tmpdir(), 'uploads-'));
  const store = await openFolderStore({ folder, signingKey: '' });
  const listener = await listenForUploads({ store });
  return {
    ...{ store, folder, baseUrl: `http://127.0.0.1:${listener.port}` },
    close: async () => {
      await listener.close();
      rmSync(folder, { recursive: true });
    },
  };
}

uploadStoreContract('uploads in a folder', { open: aFolder });

describe('a folder of uploads', () => {
  test('has modes that allow access only to its owner', async () => {
    const { store, folder, target, address } = await described(1000);
    await put(address, target.mimeType, randomBytes(1000));
    await store.describe(target.key, describing);
    const entries = readdirSync(folder, { recursive: true, withFileTypes: true });
    const modes = entries.map((entry) => {
      const mode = statSync(join(entry.parentPath, entry.name)).mode & 0o777;
      return mode === (entry.isDirectory() ? 0o700 : 0o600);
    });
    expect(modes.length).toBeGreaterThan(4);
    expect(modes).not.toContain(false);
  });

  test('has one key, also if several processes create it at once', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'uploads-'));
    onTestFinished(() => rmSync(folder, { recursive: true }));
    const opening = Array.from({ length: 8 }, () => openFolderStore({ folder, signingKey: '' }));
    const keys = (await Promise.all(opening)).map(({ receiver }) => String(receiver?.signingKey));
    expect(keys).toEqual(keys.map(() => keys[0]));
    expect(readdirSync(folder).sort()).toEqual(['incoming', 'signing-key']);
  });

  test('keeps the first bytes and rejects other bytes as a conflict', async () => {
    const { folder, target, address } = await described(1000);
    expect(await put(address, target.mimeType, Buffer.alloc(1000, 1))).toBe(200);
    expect(await put(address, target.mimeType, Buffer.alloc(1000, 2))).toBe(409);
    expect(statSync(join(folder, storageKey(target.key))).size).toBe(1000);
    expect(readdirSync(join(folder, 'incoming'))).toEqual([]);
  });

  test('accepts one of two concurrent uploads with different bytes', async () => {
    const { target, address } = await described(100_000);
    const statuses = await Promise.all(
      [1, 2, 3, 4].map((byte) => put(address, target.mimeType, Buffer.alloc(100_000, byte))),
    );
    expect(statuses.toSorted()).toEqual([200, 409, 409, 409]);
  });

  test.each([
    ['more', 1001, 413],
    ['fewer', 999, 400],
  ])('names the fault of %s bytes, also without a Content-Length', async (_, length, status) => {
    const { folder, target, address } = await described(1000);
    const chunked = await fetch(address, {
      method: 'PUT',
      headers: { 'Content-Type': target.mimeType },
      body: new Blob([new Uint8Array(length)]).stream(),
      duplex: 'half',
    });
    expect(chunked.status).toBe(status);
    expect(await put(address, target.mimeType, Buffer.alloc(length))).toBe(status);
    expect(filesOf(folder, target)).toEqual([`${target.key.uploadId}.json`]);
  });

  test('accepts bytes without a Content-Length', async () => {
    const { folder, target, address } = await described(1000);
    const answer = await fetch(address, {
      method: 'PUT',
      headers: { 'Content-Type': target.mimeType },
      body: new Blob([new Uint8Array(1000)]).stream(),
      duplex: 'half',
    });
    expect(await answer.json()).toEqual({ uploadId: target.key.uploadId, sizeBytes: 1000 });
    expect(filesOf(folder, target)).toHaveLength(2);
  });

  test('accepts fewer bytes if only a limit was stated', async () => {
    const { store, baseUrl, target } = await described(1000);
    const address = await store.address({ ...target, isExact: false }, baseUrl);
    expect(await put(address, target.mimeType, Buffer.alloc(1001))).toBe(413);
    expect(await put(address, target.mimeType, Buffer.alloc(10))).toBe(200);
  });

  test.each([
    ['another type', { 'Content-Type': 'image/png' }, 415],
    ['a content coding', { 'Content-Encoding': 'gzip' }, 415],
  ])('rejects %s', async (_, headers, status) => {
    const { folder, target, address } = await described(1000);
    const answer = await fetch(address, {
      method: 'PUT',
      headers: { 'Content-Type': target.mimeType, ...headers },
      body: new Uint8Array(1000),
    });
    expect(answer.status).toBe(status);
    expect(filesOf(folder, target)).toHaveLength(1);
  });

  test('keeps no file of a connection that ends early', async () => {
    const { folder, baseUrl, target, address } = await described(2_000_000);
    const { pathname, search, port } = new URL(address, baseUrl);
    const socket = connect(Number(port), '127.0.0.1');
    socket.write(`PUT ${pathname}${search} HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\n`);
    socket.write('Content-Length: 2000000\r\n\r\n');
    socket.write(Buffer.alloc(1_000_000));
    await expect.poll(() => readdirSync(join(folder, 'incoming'))).toHaveLength(1);
    socket.destroy();
    await expect.poll(() => readdirSync(join(folder, 'incoming'))).toEqual([]);
    expect(filesOf(folder, target)).toEqual([`${target.key.uploadId}.json`]);
  });

  test('removes the unfinished files of a killed process at the next start, and no other files', async () => {
    const { folder, target, address } = await described(10);
    await put(address, target.mimeType, Buffer.alloc(10));
    mkdirSync(join(folder, 'incoming'), { recursive: true });
    writeFileSync(join(folder, 'incoming', 'half'), 'half');
    const again = await openFolderStore({ folder, signingKey: '' });
    expect(readdirSync(join(folder, 'incoming'))).toEqual([]);
    expect((await again.find(target.key))?.sizeBytes).toBe(10);
  });

  test('rejects bytes for an upload that was removed', async () => {
    const { store, folder, target, address } = await described(10);
    await store.remove(target.key);
    expect(await put(address, target.mimeType, Buffer.alloc(10))).toBe(403);
    expect(readdirSync(join(folder, 'incoming'))).toEqual([]);
    expect(await store.find(target.key)).toBeUndefined();
  });

  test('keeps no bytes that arrive while the upload is removed', async () => {
    const { store, folder, target } = await described(10);
    const { projectId, uploadId } = target.key;
    const other = {
      projectId,
      uploadId: uploadId.replace(/.{4}$/, (end) => (end === '0000' ? '1111' : '0000')),
    };
    await store.describe(other, describing);
    const receive = store.receiver?.receive(
      target.key,
      (async function* () {
        yield Buffer.alloc(5);
        await store.remove(target.key);
        yield Buffer.alloc(5);
      })(),
    );
    await expect(receive).rejects.toMatchObject({ code: 'invalid_upload_address' });
    expect(filesOf(folder, target)).toEqual([`${other.uploadId}.json`]);
  });

  test('signs with the same key after a restart, with its own key or a configured one', async () => {
    const { store, folder, target } = await described(10);
    const again = await openFolderStore({ folder, signingKey: '' });
    const given = await openFolderStore({ folder, signingKey: 'x'.repeat(32) });
    const address = await store.address(target, '');
    expect(await again.address(target, '')).toBe(address);
    expect(await given.address(target, '')).not.toBe(address);
  });

  test('removes its empty folders with the last upload', async () => {
    const { store, folder, target } = await described(10);
    await store.remove(target.key);
    expect(readdirSync(folder).toSorted()).toEqual(['incoming', 'signing-key']);
  });
});

const describing = {
  ...({ attachmentType: 'other', fileName: 'x', mimeType: 'text/plain' } as const),
  ...{ sizeBytes: null, sessionId: null, expiresAt: '' },
};

/** Returns a folder that contains one upload without bytes. */
async function described(maxBytes: number) {
  const opened = await aFolder();
  onTestFinished(() => opened.close());
  const target = aTarget(maxBytes);
  await opened.store.describe(target.key, describing);
  return { ...opened, target, address: await opened.store.address(target, opened.baseUrl) };
}

function filesOf(folder: string, { key }: UploadTarget): string[] {
  expect(readdirSync(join(folder, 'incoming'))).toEqual([]);
  return readdirSync(join(folder, storageKey(key), '..')).toSorted();
}
