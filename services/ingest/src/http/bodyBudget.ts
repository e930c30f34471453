/** Shares the memory for request bodies between tenants. One may take all of it, as long as no other wants a part. */
import { Unavailable } from '@questlog/runtime/process/errors';
import { Rejected } from '../rejected.ts';

/** Bytes of bodies that the process holds at once. */
const MAX_BYTES_IN_FLIGHT = 256 * 1024 * 1024;
/** A body that brings less than so much in so long has come to a halt. */
const STALL_MS = 5_000;
const STALL_BYTES = 16 * 1024;

/** A body that is being read or worked on. */
export interface HeldBody {
  readonly tenantId: string;
  bytes: number;
  /** Since when the next STALL_BYTES are awaited. */
  sinceMs: number;
  sinceBytes: number;
  /** While it is coming: its place goes to another, and its request is answered with the error. */
  giveUp: ((error: Error) => void) | undefined;
}

export class BodyBudget {
  readonly #gauge: { set(value: number): void };
  readonly #bodies = new Set<HeldBody>();
  #bytes = 0;

  constructor(gauge: { set(value: number): void }) {
    this.#gauge = gauge;
  }

  begin(tenantId: string): HeldBody {
    const body = { tenantId, bytes: 0, sinceMs: performance.now(), sinceBytes: 0, giveUp: undefined };
    this.#bodies.add(body);
    return body;
  }

  /** @throws Unavailable where there is no room, and no body has to make it. */
  take(body: HeldBody, bytes: number): void {
    const nowMs = performance.now();
    while (this.#bytes + bytes > MAX_BYTES_IN_FLIGHT) this.#makeRoom(body, nowMs);
    body.bytes += bytes;
    body.sinceBytes += bytes;
    if (body.sinceBytes >= STALL_BYTES) Object.assign(body, { sinceMs: nowMs, sinceBytes: 0 });
    this.#add(bytes);
  }

  end(body: HeldBody): void {
    if (this.#bodies.delete(body)) this.#add(-body.bytes);
  }

  /**
   * Only a tenant that holds more than its share gives way, with the body that waits longest for its next bytes: for another
   * tenant with any that is still coming, for itself with one that has come to a halt.
   */
  #makeRoom(asking: HeldBody, nowMs: number): void {
    const held = new Map<string, number>();
    for (const { tenantId, bytes } of this.#bodies) held.set(tenantId, (held.get(tenantId) ?? 0) + bytes);
    const share = MAX_BYTES_IN_FLIGHT / held.size;
    const isOver = ({ tenantId }: HeldBody): boolean => held.size === 1 || (held.get(tenantId) ?? 0) > share;
    const isStalled = ({ sinceMs }: HeldBody): boolean => nowMs - sinceMs >= STALL_MS;
    let found: HeldBody | undefined;
    for (const body of this.#bodies) {
      const mayGiveWay = body !== asking && body.giveUp !== undefined && body.bytes > 0 && isOver(body);
      const must = mayGiveWay && (isStalled(body) || !isOver(asking));
      if (must && body.sinceMs < (found?.sinceMs ?? Number.POSITIVE_INFINITY)) found = body;
    }
    if (found === undefined) throw new Unavailable(TOO_MANY);
    found.giveUp?.(isStalled(found) ? new Rejected('request_timeout', STALLED) : new Unavailable(TOO_MANY));
    this.end(found);
  }

  #add(bytes: number): void {
    this.#bytes += bytes;
    this.#gauge.set(this.#bytes);
  }
}

const TOO_MANY = 'too many request bodies at once';
const STALLED = 'the body came to a halt while others waited for its place';
