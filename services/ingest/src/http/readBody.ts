/**
 * Reads a request's body under limits (inflated as its Content-Encoding says, never past the bound, valid UTF-8) and has
 * it worked on when the event loop has a turn for it.
 */
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

/** All requests of a process share these while their bodies are read. */
export interface BodyLimits {
  readonly budget: BodyBudget;
  readonly queue: EventLoopQueue;
}

/** Bytes of bodies that the process holds at once. */
const MAX_IN_FLIGHT_BYTES = 256 * 1024 * 1024;
/**
 * Of large bodies. Each may come to the limit, and a decoder of brotli keeps a window of up to 16 MiB beside it. One has a whole
 * body before it starts, and is done within milliseconds.
 */
const MAX_CONCURRENT_DECODERS = 4;
/** Once inflated. */
const MAX_SMALL_BYTES = 64 * 1024;
/** A body that brings less than so much in so long has come to a halt. */
const STALL_MS = 5_000;
const STALL_BYTES = 16 * 1024;

/** A body that is being read or worked on. */
export interface PendingBody {
  readonly tenantId: string;
  bytes: number;
  /** Since when the next STALL_BYTES are awaited. */
  sinceMs: number;
  sinceBytes: number;
  /** While it is coming: its place goes to another, and its request is answered with the error. */
  abort: ((error: Error) => void) | undefined;
}

/** Shares the memory for request bodies between tenants. One may take all of it, as long as no other wants a part. */
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

  /** @throws Unavailable where there is no room, and no body has to make it. */
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
   * Only a tenant that holds more than its share gives way, with the body that waits longest for its next bytes: for another
   * tenant with any that is still coming, for itself with one that has come to a halt.
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
const STALLED = 'the body came to a halt while others waited for its place';

/**
 * Shares the event loop: one turn of it works on so many bytes of bodies, and the others wait for a later turn. Ingest may
 * share its process with the projector and the linker, each step of which takes a turn: when eight large bodies are worked
 * on in one, those crawl, and the projection falls behind for as long as the load lasts.
 */
export class EventLoopQueue {
  /** By tenant; the one that was served last stands last. */
  readonly #waiting = new Map<string, Waiting[]>();
  #bytesLeft = MAX_BYTES_PER_TURN;
  #isScheduled = false;

  /** Resolves when it is the turn of a body of this size, in the order of the tenant's calls. @returns whether it waited. */
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

  /** Tenants take turns: however many bodies of one wait, another's waits for one of them. */
  #next(): Waiting | undefined {
    const [[tenantId, waiting] = ['', []]] = this.#waiting;
    const next = waiting.shift();
    this.#waiting.delete(tenantId);
    if (waiting.length > 0) this.#waiting.set(tenantId, waiting);
    return next;
  }
}

/** Worked on within some milliseconds. A turn works on one body at least, however large; small ones share it. */
const MAX_BYTES_PER_TURN = 64 * 1024;

interface Waiting {
  readonly bytes: number;
  start(): void;
}

export interface BodyDeps {
  readonly bodies: BodyLimits;
  readonly limits: Limits;
}

/**
 * Has the body worked on unless it is too large for the limits; keeps it where something is wrong in it.
 * @param principal who asked; behind the body, which may take its time, that is asked `again`: a token that was revoked
 *   meanwhile writes nothing more.
 */
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

/**
 * @throws Rejected for another media type or coding, a broken body, one beyond the limit, one that is not UTF-8, or one that
 * came to a halt while others waited; Unavailable where there is no room for it.
 */
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
    // Nobody would learn that it is stored: its client sends it again, and meanwhile others wait. Not so the few events that a
    // game sends as it ends.
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
    throw new Rejected('invalid_encoding', 'the body does not decode as its Content-Encoding says', {
      cause,
    });
  } finally {
    inflated.free();
  }
}

/** Frames of zstd may stand one behind the other (RFC 8878, section 3), which a client seldom has reason to do. */
const MAX_FRAMES = 16;
/** 8 MiB, the largest window that this content coding may ask for (RFC 9659). */
const MAX_WINDOW_LOG = 23;

/** Collects the chunks of a body, sent or inflated, and refuses the one that takes it past the limit. */
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

  /** Nobody reads the chunks any more. */
  free(): void {
    this.#chunks.forEach(freeChunk);
  }
}

/** Uses events, not an iterator: leaving an iterator early would tear down the connection that the answer needs. */
function collectChunks(
  request: IncomingMessage,
  pending: PendingBody,
  add: (chunk: Buffer) => void,
): Promise<void> {
  return new Promise((resolve, reject) => {
    const stop = (error: unknown): void => {
      request.removeAllListeners('data');
      // The answer ends the connection: what is left of the body is not read.
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
    // Every request closes in the end; an error for each would be made for nothing.
    request.on('close', () => {
      if (!request.complete) reject(aborted());
    });
    request.on('error', (cause) => reject(aborted(cause)));
  });
}

function tooLarge(): Rejected {
  return new Rejected('body_too_large', `a body takes at most ${LIMITS.maxBodyBytes} bytes once inflated`);
}

function aborted(cause?: unknown): Rejected {
  return new Rejected('invalid_request', 'the request ended before its body was complete', { cause });
}

/** Reads a Content-Encoding; undefined for none. @throws Rejected for one that is not known. */
function codingOf(header: string): string | undefined {
  const name = header.trim().toLowerCase();
  if (name === 'identity' || name === '') return undefined;
  if (isInflatable(name)) return name;
  throw new Rejected('unsupported_encoding', 'the Content-Encoding must be gzip, deflate, br or zstd', {
    headers: { 'Accept-Encoding': 'gzip, deflate, br, zstd' },
  });
}
