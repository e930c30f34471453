/** Reads and decompresses request bodies within limits, and processes a body when the event loop has capacity. */
import { isUtf8 } from 'node:buffer';
import type { IncomingMessage } from 'node:http';
import { isRestricted, type Principal } from '@questlog/runtime/directory/directory';
import { Rejected } from '@questlog/runtime/http/rejected';
import { Unavailable } from '@questlog/runtime/process/errors';
import { inflate, inflateSmall, isInflatable } from '@questlog/runtime/process/inflate';
import { freeChunk } from '@questlog/schemas/buffers';
import { LIMITS } from '@questlog/schemas/http/event';
import { FairQueue } from '../limits/fairQueue.ts';
import type { Limits } from '../limits/limits.ts';
import type { Caller, RequestContext } from './authenticate.ts';
import { type CheckedResponse, keepBodyIfProblems, type RequestState } from './recordOutcomes.ts';

export interface BodyLimits {
  readonly budget: BodyBudget;
  readonly queue: EventLoopQueue;
}

const MAX_IN_FLIGHT_BYTES = 256 * 1024 * 1024;
/** Maximum number of concurrent decoders of large bodies. A brotli decoder needs a window of up to 16 MiB. */
const MAX_CONCURRENT_DECODERS = 4;
const MAX_SMALL_BYTES = 64 * 1024;
/** A request body is stalled if it receives fewer than STALL_BYTES bytes in this time. */
const STALL_MS = 5_000;
const STALL_BYTES = 16 * 1024;

export interface PendingBody {
  readonly tenantId: string;
  bytes: number;
  sinceMs: number;
  sinceBytes: number;
  /** Function that ends the request with an error. Undefined after the whole body has arrived. */
  abort: ((error: Error) => void) | undefined;
}

/** Shares the memory for request bodies fairly between tenants. A single active tenant can use all of the memory. */
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

  /** Reserves memory for a request body and evicts a different body if necessary. @throws Unavailable if no memory is free */
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
   * Evicts the request body that has received no data for the longest time. A tenant within its share of memory keeps its
   * bodies.
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
 * Limits the number of body bytes that are processed per turn of the event loop. Without the limit, large bodies would delay a
 * projector in the same process.
 */
export class EventLoopQueue {
  /** The waiting request bodies, grouped by tenant. The first tenant in the map is served next. */
  readonly #waiting = new Map<string, Waiting[]>();
  #bytesLeft = MAX_BYTES_PER_TURN;
  #isScheduled = false;

  /** Resolves when the request body can be processed. The result is true if the body had to wait. */
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

  /** Returns the next waiting request body. The tenants take turns, even if one tenant has many waiting bodies. */
  #next(): Waiting | undefined {
    const [[tenantId, waiting] = ['', []]] = this.#waiting;
    const next = waiting.shift();
    this.#waiting.delete(tenantId);
    if (waiting.length > 0) this.#waiting.set(tenantId, waiting);
    return next;
  }
}

/**
 * Maximum number of body bytes per turn of the event loop. Processing this many bytes takes a few milliseconds. A single body
 * can exceed the maximum.
 */
const MAX_BYTES_PER_TURN = 64 * 1024;

interface Waiting {
  readonly bytes: number;
  start(): void;
}

export interface BodyDeps {
  readonly bodies: BodyLimits;
  readonly limits: Limits;
}

/** @param reauthenticate checks the token after the body has arrived, because the token can be revoked during the upload */
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
    // Drops a large body if the client has disconnected, because the client will retry. Keeps small bodies, because a game can
    // send its last events when it exits.
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

/** Maximum number of zstd frames in a body. A body with several frames is valid (RFC 8878, section 3) but rare. */
const MAX_FRAMES = 16;
/** Base-2 logarithm of the maximum zstd window in HTTP: 8 MiB (RFC 9659). */
const MAX_WINDOW_LOG = 23;

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

/** Reads a request body with event listeners, because leaving a `for await` loop early would destroy the connection. */
function collectChunks(
  request: IncomingMessage,
  pending: PendingBody,
  add: (chunk: Buffer) => void,
): Promise<void> {
  return new Promise((resolve, reject) => {
    const stop = (error: unknown): void => {
      request.removeAllListeners('data');
      // Stops reading the request body, because the response closes the connection.
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
    // Node emits `close` for every request. The client has disconnected only if the request body is incomplete.
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

/** Returns the content coding of a body, or undefined for `identity`. @throws Rejected if the coding is unknown */
function codingOf(header: string): string | undefined {
  const name = header.trim().toLowerCase();
  if (name === 'identity' || name === '') return undefined;
  if (isInflatable(name)) return name;
  throw new Rejected('unsupported_encoding', 'the Content-Encoding must be gzip, deflate, br or zstd', {
    headers: { 'Accept-Encoding': 'gzip, deflate, br, zstd' },
  });
}
