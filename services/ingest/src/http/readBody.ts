/** Reads the body of a request within limits, inflates the body, and processes it when the event loop has capacity. */
import { isUtf8 } from 'node:buffer';
import type { IncomingMessage } from 'node:http';
import { isRestricted, type Principal } from '@questlog/runtime/directory/directory';
import { Unavailable } from '@questlog/runtime/process/errors';
import { inflate, inflateSmall, isInflatable } from '@questlog/runtime/process/inflate';
import { freeChunk } from '@questlog/schemas/buffers';
import { LIMITS } from '@questlog/schemas/http/event';
import { FairQueue } from '../limits/fairQueue.ts';
import type { Limits } from '../limits/limits.ts';
import { Rejected } from '../rejected.ts';
import type { RequestContext } from './authenticate.ts';
import { type CheckedResponse, keepBodyIfProblems, type RequestState } from './problems.ts';

/** Limits that all requests of a process share. */
export interface BodyLimits {
  readonly budget: BodyBudget;
  readonly queue: EventLoopQueue;
}

const MAX_IN_FLIGHT_BYTES = 256 * 1024 * 1024;
/** Maximum concurrent decoders of large bodies. Each decoder takes milliseconds, and brotli needs a window of up to 16 MiB. */
const MAX_CONCURRENT_DECODERS = 4;
/** Maximum inflated bytes of a small body. */
const MAX_SMALL_BYTES = 64 * 1024;
/** Time after which a body is stalled if it has received fewer than STALL_BYTES. */
const STALL_MS = 5_000;
const STALL_BYTES = 16 * 1024;

/** A body that is being received or processed. */
export interface PendingBody {
  readonly tenantId: string;
  bytes: number;
  /** Start of the wait for the next STALL_BYTES. */
  sinceMs: number;
  sinceBytes: number;
  /** Ends the request with an error to free memory. Undefined after the body has arrived. */
  abort: ((error: Error) => void) | undefined;
}

/** Shares the memory for bodies between tenants. A tenant may use all of the memory while no other tenant needs memory. */
export class BodyBudget {
  readonly decoders = new FairQueue('large compressed bodies', MAX_CONCURRENT_DECODERS);
  readonly #gauge: { set(value: number): void };
  readonly #bodies = new Set<PendingBody>();
  #bytes = 0;

  constructor(gauge: { set(value: number): void }) {
    this.#gauge = gauge;
  }

  begin(tenantId: string): PendingBody {
    const body = { tenantId, bytes: 0, sinceMs: performance.now(), sinceBytes: 0, abort: undefined };
    this.#bodies.add(body);
    return body;
  }

  /** Reserves memory for bytes of a body. @throws Unavailable if there is no memory and no other body can be evicted */
  take(body: PendingBody, bytes: number): void {
    const nowMs = performance.now();
    while (this.#bytes + bytes > MAX_IN_FLIGHT_BYTES) this.#evict(body, nowMs);
    body.bytes += bytes;
    body.sinceBytes += bytes;
    if (body.sinceBytes >= STALL_BYTES) Object.assign(body, { sinceMs: nowMs, sinceBytes: 0 });
    this.#add(bytes);
  }

  end(body: PendingBody): void {
    if (this.#bodies.delete(body)) this.#add(-body.bytes);
  }

  /**
   * Evicts the body that has waited longest for its next bytes. The tenant of this body must be above its fair share. If the
   * tenant of the requester is above its fair share too, the evicted body must be stalled.
   */
  #evict(requester: PendingBody, nowMs: number): void {
    const bytesByTenant = new Map<string, number>();
    for (const { tenantId, bytes } of this.#bodies)
      bytesByTenant.set(tenantId, (bytesByTenant.get(tenantId) ?? 0) + bytes);
    const share = MAX_IN_FLIGHT_BYTES / bytesByTenant.size;
    const isOverShare = ({ tenantId }: PendingBody): boolean =>
      bytesByTenant.size === 1 || (bytesByTenant.get(tenantId) ?? 0) > share;
    const isStalled = ({ sinceMs }: PendingBody): boolean => nowMs - sinceMs >= STALL_MS;
    let found: PendingBody | undefined;
    for (const body of this.#bodies) {
      const isEvictable =
        body !== requester && body.abort !== undefined && body.bytes > 0 && isOverShare(body);
      const isCandidate = isEvictable && (isStalled(body) || !isOverShare(requester));
      if (isCandidate && body.sinceMs < (found?.sinceMs ?? Number.POSITIVE_INFINITY)) found = body;
    }
    if (found === undefined) throw new Unavailable(NO_MEMORY);
    found.abort?.(isStalled(found) ? new Rejected('request_timeout', STALLED) : new Unavailable(NO_MEMORY));
    this.end(found);
  }

  #add(bytes: number): void {
    this.#bytes += bytes;
    this.#gauge.set(this.#bytes);
  }
}

const NO_MEMORY = 'too many request bodies at once';
const STALLED = 'the body stalled while other requests waited for memory';

/**
 * Limits the body bytes that are processed per turn of the event loop, because the projector and the linker may share the event
 * loop. If eight large bodies were processed per turn, the projection would fall behind for as long as the load lasts.
 */
export class EventLoopQueue {
  /** Waiting bodies by tenant, least recently served first. */
  readonly #waiting = new Map<string, Waiting[]>();
  #bytesLeft = MAX_BYTES_PER_TURN;
  #isScheduled = false;

  /** Resolves when a body of this size may be processed, with true if the body waited. Keeps the order of a tenant's bodies. */
  take(tenantId: string, bytes: number): Promise<boolean> {
    this.#schedule();
    if (this.#waiting.size === 0 && this.#bytesLeft > 0) {
      this.#bytesLeft -= bytes;
      return Promise.resolve(false);
    }
    return new Promise((start) => {
      const waiting = this.#waiting.get(tenantId) ?? [];
      waiting.push({ bytes, start: () => start(true) });
      this.#waiting.set(tenantId, waiting);
    });
  }

  #schedule(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    setImmediate(() => {
      this.#isScheduled = false;
      this.#bytesLeft = MAX_BYTES_PER_TURN;
      while (this.#bytesLeft > 0) {
        const next = this.#next();
        if (next === undefined) return;
        this.#bytesLeft -= next.bytes;
        next.start();
      }
      this.#schedule();
    });
  }

  /** Returns the next waiting body. Serves the tenants in turn, however many bodies of a tenant are waiting. */
  #next(): Waiting | undefined {
    const [[tenantId, waiting] = ['', []]] = this.#waiting;
    const next = waiting.shift();
    this.#waiting.delete(tenantId);
    if (waiting.length > 0) this.#waiting.set(tenantId, waiting);
    return next;
  }
}

/** Maximum bytes per turn, which take a few milliseconds. A turn processes at least one body of any size. */
const MAX_BYTES_PER_TURN = 64 * 1024;

interface Waiting {
  readonly bytes: number;
  start(): void;
}

export interface BodyDeps {
  readonly bodies: BodyLimits;
  readonly limits: Limits;
}

/** @param reauthenticate checks the token again after the body has arrived, because the token may have been revoked by then */
export function withLimitedBody<T extends CheckedResponse>(
  { req, state }: RequestContext & { readonly state: RequestState },
  { bodies, limits }: BodyDeps,
  { principal: { tenant }, reauthenticate }: { principal: Principal; reauthenticate: () => Principal },
  work: (principal: Principal, body: Buffer) => Promise<T>,
): Promise<T> {
  return withBody(req, tenant.id, bodies, (body) => {
    const principal = reauthenticate();
    if (isRestricted(principal)) limits.admitBody(principal, req.headers, body.length);
    return keepBodyIfProblems(state, body, work(principal, body));
  });
}

/** @throws Rejected for an invalid or stalled body; Unavailable if there is no memory */
export async function withBody<T>(
  request: IncomingMessage,
  tenantId: string,
  { budget, queue }: BodyLimits,
  work: (body: Buffer) => Promise<T>,
): Promise<T> {
  const coding = codingFor(request);
  if (Number(request.headers['content-length'] ?? 0) > LIMITS.maxBodyBytes) throw tooLarge();
  const pending = budget.begin(tenantId);
  try {
    const body = await collect(request, coding, budget, pending);
    if (!isUtf8(body)) throw new Rejected('invalid_utf8', 'the body is not valid UTF-8');
    const hasWaited = await queue.take(tenantId, body.length);
    // Drops a large body if its client has disconnected, because the client will retry. Small bodies are stored, because a game
    // may send its last events when it exits.
    if (hasWaited && body.length > MAX_SMALL_BYTES && request.socket.destroyed) throw aborted();
    return await work(body);
  } finally {
    budget.end(pending);
  }
}

function codingFor(request: IncomingMessage): string | undefined {
  const type = (request.headers['content-type'] ?? '').split(';', 1)[0]?.trim().toLowerCase();
  if (type !== 'application/json') {
    throw new Rejected('unsupported_media_type', 'the Content-Type must be application/json');
  }
  return codingOf(request.headers['content-encoding'] ?? '');
}

async function collect(
  request: IncomingMessage,
  coding: string | undefined,
  budget: BodyBudget,
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
    return small;
  }
  const inflated = new LimitedChunks(budget, pending);
  try {
    await budget.decoders.run(pending.tenantId, async () => {
      for await (const chunk of inflate([body], coding, limits)) {
        if (request.socket.destroyed) throw aborted();
        inflated.add(chunk);
      }
    });
    return inflated.copy();
  } catch (cause) {
    if (cause instanceof Rejected || cause instanceof Unavailable) throw cause;
    throw new Rejected('invalid_encoding', 'the body does not match its Content-Encoding', {
      cause,
    });
  } finally {
    inflated.free();
  }
}

/** Maximum zstd frames of a body. Several frames are valid (RFC 8878, section 3), but clients rarely need them. */
const MAX_FRAMES = 16;
/** Logarithm of the maximum window of this content coding: 8 MiB (RFC 9659). */
const MAX_WINDOW_LOG = 23;

/** Collects a body's chunks. Rejects the chunk that exceeds the limit. */
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
    const copy = this.copy();
    this.free();
    return copy;
  }

  copy(): Buffer {
    return Buffer.concat(this.#chunks);
  }

  free(): void {
    this.#chunks.forEach(freeChunk);
  }
}

/**
 * Collects the chunks of a body. Uses events, because leaving an iterator early would destroy the connection that the response
 * needs.
 */
function collectChunks(
  request: IncomingMessage,
  pending: PendingBody,
  add: (chunk: Buffer) => void,
): Promise<void> {
  return new Promise((resolve, reject) => {
    const stop = (error: unknown): void => {
      request.removeAllListeners('data');
      // The response closes the connection; the rest of the body is not read.
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
    // Every request closes at some point. Only the close of an incomplete request is an error.
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

/** Returns the content coding. Undefined for `identity`. @throws Rejected if the coding is unknown */
function codingOf(header: string): string | undefined {
  const name = header.trim().toLowerCase();
  if (name === 'identity' || name === '') return undefined;
  if (isInflatable(name)) return name;
  throw new Rejected('unsupported_encoding', 'the Content-Encoding must be gzip, deflate, br or zstd', {
    headers: { 'Accept-Encoding': 'gzip, deflate, br, zstd' },
  });
}
