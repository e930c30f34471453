/** Runs the suite of upload stores on a bucket. Also tests CORS and an S3 service that does not answer. */
import { randomBytes, randomUUID } from 'node:crypto';
import type { Principal } from '@questlog/runtime/directory/directory';
import { engines } from '@questlog/runtime/log/kafka/testing/engines';
import { Unavailable } from '@questlog/runtime/process/errors';
import { silentLogger } from '@questlog/runtime/process/logger';
import { failIfRequired } from '@questlog/runtime/process/testing/required';
import { aBucket } from '@questlog/runtime/uploads/bucket.testing';
import { openS3Store } from '@questlog/runtime/uploads/s3Store';
import { describe, expect, onTestFinished, test } from 'vitest';
import { listenForUploads } from '../http/uploadHandlers.testing.ts';
import { aTarget, put, uploadStoreContract } from './uploadStore.contract.ts';

const s3 = engines?.s3;

if (s3 === undefined) {
  test('uploads in a bucket', (context) => {
    const lack = 'the S3 server of the local stack, which Go builds, is missing';
    failIfRequired('s3', lack);
    context.skip(lack);
  });
} else {
  uploadStoreContract('uploads in a bucket', {
    open: async () => {
      const store = openS3Store(await aBucket(s3), ['*'], silentLogger);
      return { store, baseUrl: '', close: async () => {} };
    },
  });

  describe('a bucket of uploads', () => {
    test('accepts bytes at the address of a response, and returns them only to its project', async () => {
      const store = openS3Store(await aBucket(s3), ['*'], silentLogger);
      const projectId = randomUUID();
      const baseUrl = await listening(store, projectId);
      const asked = { attachmentType: 'log_bundle', fileName: 'game.log', mimeType: 'text/plain' };
      const ask = (body: object): Promise<Response> =>
        fetch(`${baseUrl}/v1/ingest/uploads`, {
          method: 'POST',
          headers: { 'Content-Type': 'application/json' },
          body: JSON.stringify(body),
        });
      expect(await (await ask(asked)).json()).toMatchObject({
        status: 400,
        errors: [{ pointer: '/sizeBytes', code: 'field_required' }],
      });

      const bytes = randomBytes(3223);
      const answer = await ask({ ...asked, sizeBytes: bytes.length });
      const { uploadId, uploadUrl, requiredHeaders } = JSON.parse(await answer.text());
      expect(uploadUrl.startsWith(s3.endpoint)).toBe(true);
      expect(await put(uploadUrl, requiredHeaders['Content-Type'], bytes)).toBe(200);
      const read = await fetch(`${baseUrl}/v1/uploads/${uploadId}`);
      expect(read.headers.get('content-disposition')).toContain('game.log');
      expect(Buffer.from(await read.arrayBuffer()).equals(bytes)).toBe(true);
      const other = await listening(store, randomUUID());
      expect((await fetch(`${other}/v1/uploads/${uploadId}`)).status).toBe(404);
    });

    test('lets a browser put bytes from a page of any origin', async () => {
      const store = openS3Store(await aBucket(s3), ['*'], silentLogger);
      const address = await store.address(aTarget(1), '');
      const headers = {
        Origin: 'https://game.example',
        'Access-Control-Request-Method': 'PUT',
        'Access-Control-Request-Headers': 'content-type',
      };
      const allowed = async (): Promise<string[]> => {
        const { headers: told } = await fetch(address, { method: 'OPTIONS', headers });
        return ['origin', 'methods'].map((name) => String(told.get(`access-control-allow-${name}`)));
      };
      await expect.poll(allowed).toEqual(['*', expect.stringContaining('PUT')]);
    });

    test.each([
      ['does not exist', { bucket: 'of-nobody' }],
      ['does not answer', { endpoint: 'http://127.0.0.1:1' }],
      ['rejects the key', { secretAccessKey: 'wrong' }],
    ])('that %s is unavailable, and never reports an upload as missing', async (_, of) => {
      const store = openS3Store({ ...(await aBucket(s3)), ...of }, ['*'], silentLogger);
      const { key } = aTarget(1);
      await expect(store.find(key)).rejects.toThrow(Unavailable);
      await expect(store.remove(key)).rejects.toThrow(Unavailable);
    });
  });
}

/** Starts a listener. @returns the address at which a client of the project uses the upload endpoints. */
async function listening(store: ReturnType<typeof openS3Store>, projectId: string): Promise<string> {
  const principal = { project: { id: projectId }, tenant: { id: 'one' } } as unknown as Principal;
  const { port, close } = await listenForUploads({ store, principal });
  onTestFinished(() => close());
  return `http://127.0.0.1:${port}`;
}
