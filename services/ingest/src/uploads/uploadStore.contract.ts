/** Test suite for implementations of `UploadStore`. */
import { randomBytes, randomUUID } from 'node:crypto';
import { request } from 'node:http';
import { buffer } from 'node:stream/consumers';
import {
  dayOf,
  type UploadDescription,
  type UploadKey,
  type UploadTarget,
} from '@questlog/runtime/uploads/core/uploadKey';
import type { UploadStore } from '@questlog/runtime/uploads/uploadStore';
import { eventId } from '@questlog/schemas/uuid';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

export interface UploadStoreHarness {
  open(): Promise<{ store: UploadStore; baseUrl: string; close(): Promise<void> }>;
}

const A_DAY_MS = 86_400_000;

export function uploadStoreContract(name: string, harness: UploadStoreHarness): void {
  describe(name, () => {
    let opened: Awaited<ReturnType<UploadStoreHarness['open']>>;
    let store: UploadStore;
    beforeAll(async () => {
      opened = await harness.open();
      store = opened.store;
    });
    afterAll(() => opened?.close());

    const addressOf = (target: UploadTarget): Promise<string> => store.address(target, opened.baseUrl);
    const described = async (bytes: Buffer, of: Partial<UploadKey> = {}): Promise<UploadTarget> => {
      const target = aTarget(bytes.length, of);
      await store.describe(target.key, describing(target));
      return target;
    };

    test.each([0, 1, 3 * 1024 * 1024])('returns the bytes that were put: %d of them', async (length) => {
      const bytes = randomBytes(length);
      const target = await described(bytes);
      expect(await store.find(target.key)).toEqual({
        description: describing(target),
        sizeBytes: undefined,
      });

      expect(await put(await addressOf(target), target.mimeType, bytes)).toBe(200);
      expect(await store.find(target.key)).toEqual({ description: describing(target), sizeBytes: length });
      expect((await buffer(await store.read(target.key))).equals(bytes)).toBe(true);
    });

    test('accepts the same bytes again', async () => {
      const bytes = randomBytes(200_000);
      const target = await described(bytes);
      const address = await addressOf(target);
      expect(await put(address, target.mimeType, bytes)).toBe(200);
      expect(await put(address, target.mimeType, bytes)).toBe(200);
      expect((await buffer(await store.read(target.key))).equals(bytes)).toBe(true);
    });

    test.each([
      ['more bytes than the address takes', 1],
      ['fewer bytes than the address takes', -1],
    ])('rejects %s, and stores nothing of them', async (_, difference) => {
      const target = await described(randomBytes(100_000));
      const status = await put(
        await addressOf(target),
        target.mimeType,
        randomBytes(target.maxBytes + difference),
      );
      expect(status).toBeGreaterThanOrEqual(400);
      expect(status).toBeLessThan(500);
      expect((await store.find(target.key))?.sizeBytes).toBeUndefined();
    });

    test('rejects another media type, and stores nothing', async () => {
      const bytes = randomBytes(10);
      const target = await described(bytes);
      const status = await put(await addressOf(target), 'text/html', bytes);
      expect(status).toBeGreaterThanOrEqual(400);
      expect((await store.find(target.key))?.sizeBytes).toBeUndefined();
    });

    test('rejects an address whose last character was changed, and stores nothing', async () => {
      const bytes = randomBytes(10);
      const target = await described(bytes);
      const address = await addressOf(target);
      const forged = new URL(address);
      const name = [...forged.searchParams.keys()].find((each) => /signature$/i.test(each)) ?? '';
      const signature = forged.searchParams.get(name) ?? '';
      forged.searchParams.set(name, (signature.startsWith('0') ? '1' : '0') + signature.slice(1));
      expect(await put(forged.href, target.mimeType, bytes)).toBe(403);
      expect((await store.find(target.key))?.sizeBytes).toBeUndefined();
    });

    test('stores nothing after a broken connection, and accepts the bytes again', async () => {
      const bytes = randomBytes(2_000_000);
      const target = await described(bytes);
      const address = await addressOf(target);
      await putHalf(address, target.mimeType, bytes);
      expect((await store.find(target.key))?.sizeBytes).toBeUndefined();
      expect(await put(address, target.mimeType, bytes)).toBe(200);
      expect((await buffer(await store.read(target.key))).equals(bytes)).toBe(true);
    });

    test('does not find an upload of another project or an unknown upload', async () => {
      const target = await described(randomBytes(1));
      expect(await store.find({ ...target.key, projectId: randomUUID() })).toBeUndefined();
      expect(await store.find(aTarget(1).key)).toBeUndefined();
    });

    test('lists the uploads of one day, with and without bytes', async () => {
      const millis = Date.now() - 20 * A_DAY_MS - Math.floor(Math.random() * 3000) * A_DAY_MS;
      const ofDay = (): Partial<UploadKey> => ({ uploadId: eventId(millis, 0, randomBytes(8)) });
      const bytes = randomBytes(5);
      const [whole, empty] = [await described(bytes, ofDay()), await described(bytes, ofDay())];
      await described(bytes, { uploadId: eventId(millis + A_DAY_MS, 0, randomBytes(8)) });
      await put(await addressOf(whole), whole.mimeType, bytes);

      expect(await listed(store, dayOf(millis))).toEqual(sorted([whole.key, empty.key]));
      expect(await listed(store, dayOf(millis - A_DAY_MS))).toEqual([]);
    });

    test('removes an upload, and accepts a second removal', async () => {
      const bytes = randomBytes(5);
      const target = await described(bytes);
      await put(await addressOf(target), target.mimeType, bytes);
      await store.remove(target.key);
      await store.remove(target.key);
      expect(await store.find(target.key)).toBeUndefined();
    });

    async function putHalf(address: string, type: string, bytes: Buffer): Promise<void> {
      const sent = request(address, {
        method: 'PUT',
        headers: { 'Content-Type': type, 'Content-Length': bytes.length },
      });
      await new Promise<void>((resolve) => {
        sent.on('error', () => resolve());
        sent.write(bytes.subarray(0, bytes.length / 2), () => {
          sent.destroy();
          resolve();
        });
      });
    }
  });
}

export function aTarget(maxBytes: number, of: Partial<UploadKey> = {}): UploadTarget {
  const key = { projectId: randomUUID(), uploadId: eventId(Date.now(), 0, randomBytes(8)), ...of };
  const expiresAtMs = Date.now() + 60_000;
  return { key, mimeType: 'text/plain', maxBytes, isExact: true, expiresAtMs, tokenId: randomUUID() };
}

function describing({ mimeType, maxBytes, expiresAtMs }: UploadTarget): UploadDescription {
  const expiresAt = new Date(expiresAtMs).toISOString();
  return {
    ...{ attachmentType: 'log_bundle', fileName: 'ünï.log', mimeType },
    ...{ sizeBytes: maxBytes, sessionId: null, expiresAt },
  };
}

export async function put(address: string, type: string, bytes: Buffer): Promise<number> {
  const answer = await fetch(address, {
    method: 'PUT',
    headers: { 'Content-Type': type },
    body: new Uint8Array(bytes),
  });
  await answer.arrayBuffer();
  return answer.status;
}

async function listed(store: UploadStore, day: string): Promise<UploadKey[]> {
  const keys: UploadKey[] = [];
  for await (const key of store.list(day)) keys.push(key);
  return sorted(keys);
}

function sorted(keys: readonly UploadKey[]): UploadKey[] {
  return keys.toSorted((a, b) => a.uploadId.localeCompare(b.uploadId));
}
