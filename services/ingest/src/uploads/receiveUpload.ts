/** PUT of an upload's address: the bytes go to the store as they come, bounded, and beside the events. */
import type { IncomingMessage } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import { Unavailable } from '@questlog/runtime/process/errors';
import { Rejected } from '../rejected.ts';
import type { UploadTarget } from './core/uploadKey.ts';
import { essenceOf } from './core/uploadRequest.ts';
import type { UploadReceiver } from './uploadStore.ts';

/** Uploads that a process takes at one time, each with a piece or two in memory; past it a client is told to come again. */
const MAX_UPLOADS_AT_ONCE = 256;
/** Of all uploads of a process together. Files have time, events have not: they share its thread and its disk. */
const BYTES_PER_SECOND = 10 * 1024 * 1024;
/** A client that sends nothing for so long is gone. */
const IDLE_MS = 30_000;

/** How often the token of an upload is looked at that sends nothing: a revocation takes effect within 2 s. */
const CHECK_MS = 1_000;

/** The uploads that a process is taking: how many, and their pace. */
export class UploadsInFlight {
  readonly #gauge: { inc(): void; dec(): void };
  #count = 0;
  /** When the pieces that were taken until now are due. */
  #dueMs = 0;

  constructor(gauge: { inc(): void; dec(): void }) {
    this.#gauge = gauge;
  }

  async during<T>(work: () => Promise<T>): Promise<T> {
    if (this.#count >= MAX_UPLOADS_AT_ONCE) throw new Unavailable('too many uploads at once');
    this.#count += 1;
    this.#gauge.inc();
    try {
      return await work();
    } finally {
      this.#count -= 1;
      this.#gauge.dec();
    }
  }

  /** Resolves when it is the turn of a piece of this size, in the order of the calls. */
  async pace(bytes: number): Promise<void> {
    const nowMs = performance.now();
    const turnMs = Math.max(nowMs, this.#dueMs);
    this.#dueMs = turnMs + (bytes * 1000) / BYTES_PER_SECOND;
    if (turnMs > nowMs) await delay(turnMs - nowMs);
  }
}

/**
 * @param isAllowed whether the token that asked for the address is still valid.
 * @returns the size of what is stored now.
 * @throws Rejected for another type, more bytes than the address takes, fewer than were announced, or other bytes than
 * are stored already, or a token that is revoked meanwhile. Nothing of them is kept.
 */
export async function receiveUpload(
  receiver: UploadReceiver,
  inFlight: UploadsInFlight,
  target: UploadTarget,
  request: IncomingMessage,
  isAllowed: () => boolean,
): Promise<number> {
  if (!isAllowed()) throw revoked();
  checkHead(request, target);
  return await inFlight.during(async () => {
    // Both end the connection, so that the iteration throws.
    request.setTimeout(IDLE_MS);
    const check = setInterval(() => isAllowed() || request.destroy(), CHECK_MS);
    try {
      return await receiver.receive(target.key, bounded(request, inFlight, target, isAllowed));
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
  const announced = headers['content-length'];
  if (announced === undefined) return;
  if (Number(announced) > maxBytes) throw tooLarge(maxBytes);
  if (isExact && Number(announced) < maxBytes) throw incomplete(maxBytes);
}

async function* bounded(
  request: IncomingMessage,
  inFlight: UploadsInFlight,
  { maxBytes, isExact }: UploadTarget,
  isAllowed: () => boolean,
): AsyncGenerator<Buffer> {
  let sizeBytes = 0;
  try {
    // Leaving it early must not tear down the connection that the answer needs.
    for await (const piece of request.iterator({ destroyOnReturn: false })) {
      const { length } = piece;
      sizeBytes += length;
      if (sizeBytes > maxBytes) throw tooLarge(maxBytes);
      if (!isAllowed()) throw revoked();
      yield piece;
      release(piece);
      await inFlight.pace(length);
    }
  } catch (cause) {
    if (!request.destroyed) throw cause;
    throw new Rejected('incomplete_upload', 'the connection ended before the file was complete', { cause });
  }
  if (isExact && sizeBytes < maxBytes) throw incomplete(maxBytes);
  if (!isAllowed()) throw revoked();
}

/**
 * Gives the memory of a piece back at once. Left to the garbage collector, pieces make it look through the whole heap once
 * or twice a second, and events wait for that.
 */
function release(piece: Buffer): void {
  const { buffer } = piece;
  const isItsOwn = buffer.byteLength === piece.byteLength;
  if (isItsOwn && buffer instanceof ArrayBuffer) buffer.transfer(0);
}

function revoked(): Rejected {
  return new Rejected(
    'invalid_upload_address',
    'the access token that asked for it was revoked or has expired',
  );
}

function tooLarge(maxBytes: number): Rejected {
  return new Rejected('upload_too_large', `the address takes at most ${maxBytes} bytes`);
}

function incomplete(maxBytes: number): Rejected {
  return new Rejected('incomplete_upload', `the upload was asked for with ${maxBytes} bytes (sizeBytes)`);
}
