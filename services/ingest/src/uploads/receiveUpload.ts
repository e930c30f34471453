/** Handles PUT to an upload address: writes the request body to the upload store, and limits the size and the rate. */
import type { IncomingMessage } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import { Rejected } from '@questlog/runtime/http/rejected';
import type { BoundedResources } from '@questlog/runtime/process/metrics';
import { essenceOf, type UploadTarget } from '@questlog/runtime/uploads/core/uploadKey';
import type { UploadReceiver } from '@questlog/runtime/uploads/uploadStore';
import { type AcquirePermit, FairQueue, limitConcurrency, type ProjectIds } from '../limits/fairSharing.ts';

/** Maximum number of concurrent uploads. Each upload needs memory for one or two chunks of its file. */
const MAX_CONCURRENT_UPLOADS = 512;
/** Maximum bytes per second of all uploads together. The limit leaves CPU and disk time for events. */
const BYTES_PER_SECOND = 10 * 1024 * 1024;
/** If a timer fires late, the next chunks wait less. This is the maximum delay that is compensated. */
const MAX_CATCH_UP_MS = 50;
const IDLE_TIMEOUT_MS = 30_000;

/** Interval of permission checks. A revoked token must stop an upload within 2 s, even if the client sends no data. */
const CHECK_INTERVAL_MS = 1_000;

export class UploadsInFlight {
  readonly #acquire: AcquirePermit;
  readonly #turns = new FairQueue('pieces of uploads', 1);
  #nextChunkMs = 0;

  constructor(gauge: { set(value: number): void }, resources?: Pick<BoundedResources, 'add'>) {
    let used = 0;
    const set = (value: number): void => {
      used = value;
      gauge.set(value);
    };
    this.#acquire = limitConcurrency('uploads', MAX_CONCURRENT_UPLOADS, { set });
    resources?.add({ resource: 'uploads', limit: MAX_CONCURRENT_UPLOADS, used: () => used });
  }

  async run<T>(holder: ProjectIds, work: () => Promise<T>): Promise<T> {
    const release = this.#acquire(holder);
    return await work().finally(release);
  }

  /** Waits until the rate limit allows the next chunk of a file. The tenants take turns. */
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
 * Stores the file, and returns its size.
 * @throws Rejected if the file is not valid or the token was revoked. The store then keeps no bytes.
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
      `the Content-Type must be ${mimeType}, as in the request for the upload`,
    );
  }
  const coding = headers['content-encoding'] ?? 'identity';
  if (coding.toLowerCase() !== 'identity') {
    throw new Rejected('unsupported_encoding', 'a file must be sent without a Content-Encoding');
  }
  if (headers['content-range'] !== undefined) {
    // Rejects a part of a file, because the store would keep the part as the whole file (RFC 9110, section 14.5).
    throw new Rejected('invalid_request', 'a file must be sent as a whole, without a Content-Range');
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
    // If the loop ends before the whole body is read, the connection stays open, because the response must still be sent.
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

/** Frees the memory of a chunk immediately. Otherwise, chunks would cause long garbage collections that delay events. */
function releaseMemory(chunk: Buffer): void {
  const { buffer } = chunk;
  const isItsOwn = buffer.byteLength === chunk.byteLength;
  if (isItsOwn && buffer instanceof ArrayBuffer) buffer.transfer(0);
}

function tokenRevoked(): Rejected {
  return new Rejected(
    'invalid_upload_address',
    'the access token that requested the upload was revoked or has expired, or its project or tenant is suspended',
  );
}

function tooLarge(maxBytes: number): Rejected {
  return new Rejected('upload_too_large', `the upload may have at most ${maxBytes} bytes`);
}

function incomplete(maxBytes: number): Rejected {
  return new Rejected('incomplete_upload', `the upload must have ${maxBytes} bytes, as stated in sizeBytes`);
}
