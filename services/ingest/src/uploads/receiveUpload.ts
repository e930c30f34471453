/** PUT of an upload's address: the bytes go to the store as they come, bounded, and beside the events. */
import type { IncomingMessage } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import { Unavailable } from '@questlog/runtime/process/errors';
import { ConcurrencyLimit, type ProjectIds } from '../limits/concurrencyLimit.ts';
import { FairQueue } from '../limits/fairQueue.ts';
import { Rejected } from '../rejected.ts';
import type { UploadTarget } from './core/uploadKey.ts';
import { essenceOf } from './core/uploadRequest.ts';
import type { UploadReceiver } from './uploadStore.ts';

/**
 * Uploads that a process takes at one time, each with a piece or two in memory; past it, and for a tenant past half of it, a
 * client is told to come again.
 */
const MAX_CONCURRENT_UPLOADS = 512;
/** Of all uploads of a process together. Files have time, events have not: they share its thread and its disk. */
const BYTES_PER_SECOND = 10 * 1024 * 1024;
/** A timer that comes late costs the uploads nothing of their pace. */
const MAX_CATCH_UP_MS = 50;
/** A client that sends nothing for so long is gone. */
const IDLE_TIMEOUT_MS = 30_000;

/** How often it is looked whether an upload that sends nothing may go on: a revocation takes effect within 2 s. */
const CHECK_INTERVAL_MS = 1_000;

/** The uploads that a process is taking: how many, and their pace. */
export class UploadsInFlight {
  readonly #gauge: { set(value: number): void };
  readonly #permits = new ConcurrencyLimit(MAX_CONCURRENT_UPLOADS);
  readonly #turns = new FairQueue('pieces of uploads', 1);
  /** When the pieces that had their turn are paid for. */
  #nextChunkMs = 0;

  constructor(gauge: { set(value: number): void }) {
    this.#gauge = gauge;
  }

  async run<T>(holder: ProjectIds, work: () => Promise<T>): Promise<T> {
    const releasePermit = this.#permits.acquire(holder);
    if (releasePermit === undefined) throw new Unavailable('too many uploads at once');
    this.#gauge.set(this.#permits.inUse);
    try {
      return await work();
    } finally {
      releasePermit();
      this.#gauge.set(this.#permits.inUse);
    }
  }

  /** Resolves when a piece of this size has had its time: tenants take turns, and each one's pieces are in the order of the calls. */
  async pace(tenantId: string, bytes: number): Promise<void> {
    await this.#turns.run(tenantId, async () => {
      const nowMs = performance.now();
      this.#nextChunkMs =
        Math.max(nowMs - MAX_CATCH_UP_MS, this.#nextChunkMs) + (bytes * 1000) / BYTES_PER_SECOND;
      if (this.#nextChunkMs > nowMs) await delay(this.#nextChunkMs - nowMs);
    });
  }
}

/**
 * @param holderOf whose the upload is; undefined from when on it may not go on.
 * @returns the size of what is stored now.
 * @throws Rejected for another type, a part of a file, more bytes than the address takes, fewer than were announced, or other bytes than
 * are stored already, or a token that is revoked or a project that is suspended meanwhile. Nothing of them is kept.
 */
export async function receiveUpload(
  receiver: UploadReceiver,
  inFlight: UploadsInFlight,
  target: UploadTarget,
  request: IncomingMessage,
  holderOf: () => ProjectIds | undefined,
): Promise<number> {
  const holder = holderOf();
  if (holder === undefined) throw tokenRevoked();
  checkHead(request, target);
  return await inFlight.run(holder, async () => {
    // Both end the connection, so that the iteration throws.
    request.setTimeout(IDLE_TIMEOUT_MS);
    const check = setInterval(() => holderOf() ?? request.destroy(), CHECK_INTERVAL_MS);
    try {
      return await receiver.receive(target.key, bounded(request, inFlight, target, holderOf));
    } finally {
      clearInterval(check);
      request.setTimeout(0);
    }
  });
}

function checkHead({ headers }: IncomingMessage, { mimeType, maxBytes, isExact }: UploadTarget): void {
  if (essenceOf(headers['content-type'] ?? '') !== essenceOf(mimeType)) {
    throw new Rejected(
      'unsupported_file_type',
      `the Content-Type must be ${mimeType}, as the upload was asked for`,
    );
  }
  const coding = headers['content-encoding'] ?? 'identity';
  if (coding.toLowerCase() !== 'identity') {
    throw new Rejected('unsupported_encoding', 'a file is sent as it is, without a Content-Encoding');
  }
  if (headers['content-range'] !== undefined) {
    // RFC 9110, section 14.5: a part would be kept as the whole.
    throw new Rejected('invalid_request', 'a file is sent whole, without a Content-Range');
  }
  const contentLength = headers['content-length'];
  if (contentLength === undefined) return;
  if (Number(contentLength) > maxBytes) throw tooLarge(maxBytes);
  if (isExact && Number(contentLength) < maxBytes) throw incomplete(maxBytes);
}

async function* bounded(
  request: IncomingMessage,
  inFlight: UploadsInFlight,
  { maxBytes, isExact }: UploadTarget,
  holderOf: () => ProjectIds | undefined,
): AsyncGenerator<Buffer> {
  let sizeBytes = 0;
  try {
    // Leaving it early must not tear down the connection that the answer needs.
    for await (const chunk of request.iterator({ destroyOnReturn: false })) {
      const { length } = chunk;
      sizeBytes += length;
      if (sizeBytes > maxBytes) throw tooLarge(maxBytes);
      const holder = holderOf();
      if (holder === undefined) throw tokenRevoked();
      yield chunk;
      releaseMemory(chunk);
      await inFlight.pace(holder.tenantId, length);
    }
  } catch (cause) {
    if (!request.destroyed) throw cause;
    throw new Rejected('incomplete_upload', 'the connection ended before the file was complete', { cause });
  }
  if (isExact && sizeBytes < maxBytes) throw incomplete(maxBytes);
  if (holderOf() === undefined) throw tokenRevoked();
}

/**
 * Gives the memory of a piece back at once. Left to the garbage collector, pieces make it look through the whole heap once
 * or twice a second, and events wait for that.
 */
function releaseMemory(chunk: Buffer): void {
  const { buffer } = chunk;
  const isItsOwn = buffer.byteLength === chunk.byteLength;
  if (isItsOwn && buffer instanceof ArrayBuffer) buffer.transfer(0);
}

function tokenRevoked(): Rejected {
  return new Rejected(
    'invalid_upload_address',
    'the access token that asked for it was revoked or has expired, or its project or tenant is suspended',
  );
}

function tooLarge(maxBytes: number): Rejected {
  return new Rejected('upload_too_large', `the address takes at most ${maxBytes} bytes`);
}

function incomplete(maxBytes: number): Rejected {
  return new Rejected('incomplete_upload', `the upload was asked for with ${maxBytes} bytes (sizeBytes)`);
}
