/** Finds an uploaded file, and responds with its bytes. */
import type { Readable } from 'node:stream';
import { isUuidV7, millisOf } from '@questlog/schemas/uuid';
import type { ParameterizedContext } from 'koa';
import { pathUuid, Rejected } from '../http/rejected.ts';
import type { UploadDescription } from './core/uploadKey.ts';
import type { UploadStore } from './uploadStore.ts';

export interface StoredUpload {
  readonly description: UploadDescription;
  readonly sizeBytes: number;
  read(): Promise<Readable>;
}

interface UploadScope {
  readonly projectId: string;
  /** Number of days for which the project keeps uploads. Null or undefined if uploads do not expire. */
  readonly days?: number | null | undefined;
  readonly nowMs: number;
}

const DAY_MS = 24 * 60 * 60 * 1000;

/** @throws Rejected `not_found` if the upload does not exist or its file has not arrived */
export async function findUpload(
  store: UploadStore | undefined,
  { projectId, days = null, nowMs }: UploadScope,
  id: string,
): Promise<StoredUpload> {
  const key = { projectId, uploadId: pathUuid(id) };
  const found = isUuidV7(key.uploadId) ? await store?.find(key) : undefined;
  if (store === undefined || found?.sizeBytes === undefined) {
    const isOld = days !== null && isUuidV7(key.uploadId) && nowMs - millisOf(key.uploadId) > days * DAY_MS;
    const detail = isOld
      ? `upload ${key.uploadId} has expired or was erased: this project keeps uploads for ${days} days`
      : `upload ${key.uploadId} does not exist, or its bytes have not arrived`;
    throw new Rejected('not_found', detail);
  }
  return { description: found.description, sizeBytes: found.sizeBytes, read: () => store.read(key) };
}

export async function answerBytes(
  ctx: ParameterizedContext,
  upload: StoredUpload,
  headers: Readonly<Record<string, string>>,
): Promise<void> {
  ctx.set(headers);
  ctx.status = 200;
  if (ctx.method !== 'HEAD') ctx.body = await upload.read();
  ctx.length = upload.sizeBytes;
}
