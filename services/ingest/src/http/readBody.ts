/** Reads and decompresses request bodies within limits. Processes a body when the event loop has capacity. */
import { isUtf8 } from 'node:buffer';
import type { IncomingMessage } from 'node:http';
import { isRestricted, type Principal } from '@questlog/runtime/directory/directory';
import { Rejected } from '@questlog/runtime/http/rejected';
import { Unavailable } from '@questlog/runtime/process/errors';
import { gzipSizeOf, inflate, inflateSmall, isInflatable } from '@questlog/runtime/process/inflate';
import { freeChunk } from '@questlog/schemas/buffers';
import { LIMITS } from '@questlog/schemas/http/event';
import type { BodyBudget, BodyLimits, PendingBody } from '../limits/fairSharing.ts';
import type { Limits } from '../limits/limits.ts';
import type { Caller, RequestContext } from './authenticate.ts';
import { type CheckedResponse, keepBodyIfProblems, type RequestState } from './recordOutcomes.ts';

const MAX_SMALL_BYTES = 64 * 1024;

export interface BodyDeps {
  readonly bodies: BodyLimits;
  readonly limits: Limits;
}

/** @param reauthenticate checks the token again after the body has arrived, because the token can be revoked in the meantime */
export function withLimitedBody<T extends CheckedResponse>(
  { req, state }: RequestContext & { readonly state: RequestState },
  { bodies, limits }: BodyDeps,
  { principal: { tenant }, reauthenticate }: Caller,
  work: (principal: Principal, body: Buffer) => Promise<T>,
): Promise<T> {
  return withBody(req, tenant.id, bodies, (body) => {
    const principal = reauthenticate();
    if (isRestricted(principal)) limits.admitBody(principal, req.headers, body.length);
    return keepBodyIfProblems(state, body, work(principal, body));
  });
}

/**
 * @throws Rejected for an invalid or stalled body
 * @throws Unavailable if the process has no memory for the body
 */
export async function withBody<T>(
  request: IncomingMessage,
  tenantId: string,
  bodies: BodyLimits,
  work: (body: Buffer) => Promise<T>,
): Promise<T> {
  const coding = codingFor(request);
  if (Number(request.headers['content-length'] ?? 0) > LIMITS.maxBodyBytes) throw tooLarge();
  const pending = bodies.budget.begin(tenantId);
  try {
    const body = await collect(request, coding, bodies, pending);
    if (!isUtf8(body)) throw new Rejected('invalid_utf8', 'the body is not valid UTF-8');
    const hasWaited = await bodies.queue.take(tenantId, body.length);
    // Drops a large body if the client has disconnected, because the client will retry. Keeps a small body, because it can
    // contain a game's last events before its exit.
    if (hasWaited && body.length > MAX_SMALL_BYTES && request.socket.destroyed) throw aborted();
    return await work(body);
  } finally {
    bodies.budget.end(pending);
  }
}

/**
 * Returns the content coding of a body. Undefined for `identity`. @throws Rejected if the media type or the coding is unknown
 */
function codingFor(request: IncomingMessage): string | undefined {
  const type = (request.headers['content-type'] ?? '').split(';', 1)[0]?.trim().toLowerCase();
  if (type !== 'application/json') {
    throw new Rejected('unsupported_media_type', 'the Content-Type must be application/json');
  }
  const coding = (request.headers['content-encoding'] ?? '').trim().toLowerCase();
  if (coding === 'identity' || coding === '') return undefined;
  if (isInflatable(coding)) return coding;
  throw new Rejected('unsupported_encoding', 'the Content-Encoding must be gzip, deflate, br or zstd', {
    headers: { 'Accept-Encoding': 'gzip, deflate, br, zstd' },
  });
}

async function collect(
  request: IncomingMessage,
  coding: string | undefined,
  { budget, decoders }: BodyLimits,
  pending: PendingBody,
): Promise<Buffer> {
  const sent = new LimitedChunks(budget, pending);
  await collectChunks(request, pending, (chunk) => sent.add(chunk));
  if (coding === undefined) return sent.toBuffer();
  const body = sent.toBuffer();
  const limits = { maxMembers: coding === 'zstd' ? MAX_FRAMES : 1, maxWindowLog: MAX_WINDOW_LOG };
  const small = inflateSmall(body, coding, MAX_SMALL_BYTES, limits);
  if (small !== undefined) {
    budget.take(pending, small.length);
    return compacted(small);
  }
  const inflated = new LimitedChunks(budget, pending);
  try {
    const expectedBytes = gzipSizeOf(body, coding);
    await decoders.run(pending.tenantId, async () => {
      for await (const chunk of inflate([body], coding, { ...limits, expectedBytes })) {
        if (request.socket.destroyed) throw aborted();
        inflated.add(chunk);
      }
    });
    return compacted(inflated.toBuffer());
  } catch (cause) {
    inflated.free();
    if (cause instanceof Rejected || cause instanceof Unavailable) throw cause;
    throw new Rejected('invalid_encoding', 'the body does not match its Content-Encoding', {
      cause,
    });
  }
}

/** Maximum number of zstd frames in a body. Bodies with several frames are valid (RFC 8878, section 3) but rare. */
const MAX_FRAMES = 16;
/** Base-2 logarithm of the maximum zstd window. In HTTP, the maximum window is 8 MiB (RFC 9659). */
const MAX_WINDOW_LOG = 23;

/** Copies a body from a much larger buffer of its decoder. The budget counts only the body, which can wait for a slow append. */
function compacted(body: Buffer): Buffer {
  if (body.length >= body.buffer.byteLength / 2) return body;
  const copy = Buffer.allocUnsafeSlow(body.length);
  body.copy(copy);
  return copy;
}

class LimitedChunks {
  readonly #budget: BodyBudget;
  readonly #pending: PendingBody;
  readonly #chunks: Buffer[] = [];
  #bytes = 0;

  constructor(budget: BodyBudget, pending: PendingBody) {
    this.#budget = budget;
    this.#pending = pending;
  }

  add(chunk: Buffer): void {
    this.#chunks.push(chunk);
    this.#budget.take(this.#pending, chunk.length);
    this.#bytes += chunk.length;
    if (this.#bytes > LIMITS.maxBodyBytes) throw tooLarge();
  }

  toBuffer(): Buffer {
    const [only] = this.#chunks;
    if (this.#chunks.length === 1 && only !== undefined) return only;
    const copy = Buffer.concat(this.#chunks);
    this.free();
    return copy;
  }

  free(): void {
    this.#chunks.forEach(freeChunk);
  }
}

/** Reads a request body with event listeners. Leaving a `for await` loop early would destroy the connection. */
function collectChunks(
  request: IncomingMessage,
  pending: PendingBody,
  add: (chunk: Buffer) => void,
): Promise<void> {
  return new Promise((resolve, reject) => {
    const stop = (error: unknown): void => {
      request.removeAllListeners('data');
      // Stops reading the request body after an error, because the response closes the connection.
      request.pause();
      reject(error);
    };
    pending.abort = stop;
    request.on('data', (chunk: Buffer) => {
      try {
        add(chunk);
      } catch (error) {
        stop(error);
      }
    });
    request.on('end', () => {
      pending.abort = undefined;
      resolve();
    });
    // Node emits `close` for every request. An incomplete body shows that the client has disconnected.
    request.on('close', () => {
      if (!request.complete) reject(aborted());
    });
    request.on('error', (cause) => reject(aborted(cause)));
  });
}

function tooLarge(): Rejected {
  return new Rejected(
    'body_too_large',
    `a body may have at most ${LIMITS.maxBodyBytes} bytes after decompression`,
  );
}

function aborted(cause?: unknown): Rejected {
  return new Rejected('invalid_request', 'the request ended before its body was complete', { cause });
}
