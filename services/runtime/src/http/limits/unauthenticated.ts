/** Limits requests and connections without valid credentials for each client address. Each ingest process counts separately. */
import type { IncomingMessage } from 'node:http';
import type { BlockList, Socket } from 'node:net';
import { BoundedMap } from '../../process/boundedMap.ts';
import type { Clock } from '../../process/clock.ts';
import type { AddressGuard } from '../../process/listener/listen.ts';
import { Bucket } from '../core/bucket.ts';
import type { HttpMetrics } from '../metrics.ts';
import { Rejected } from '../rejected.ts';
import { clientNetwork, isTrusted, networkOf } from './addresses.ts';

/** Result of a quick check of the credentials. `unknown` means that the request needs the full check. */
export type Credentials = 'valid' | 'invalid' | 'none' | 'unknown';

/** Maximum rate of requests without valid credentials from one address. Such a request takes about 0.1 ms of CPU time. */
const RATE = { perSecond: 500, capacity: 5_000 };
export const REJECTED_FOR_S = 30;
/** A rate-limited address can open this many connections per second. Ingest closes further connections without a response. */
const CONNECTIONS_PER_SECOND = 100;
/** Maximum number of client addresses in memory. The address that was inactive for the longest time is evicted. */
const MAX_ADDRESSES = 10_000;

interface Address {
  readonly bucket: Bucket;
  rejectedUntilMs: number;
  second: number;
  /** Number of new connections from the address in the current second. */
  connections: number;
}

export class UnauthenticatedLimit implements AddressGuard {
  readonly #clock: Clock;
  readonly #metrics: Pick<HttpMetrics, 'rateLimited'>;
  readonly #trustedProxies: BlockList;
  readonly #credentialsOf: (request: IncomingMessage) => Credentials;
  readonly #addresses = new BoundedMap<string, Address>(MAX_ADDRESSES);
  #anyUntilMs = 0;

  /** @param credentialsOf checks the credentials of a request. The check must need little CPU time. */
  constructor(
    clock: Clock,
    metrics: Pick<HttpMetrics, 'rateLimited'>,
    trustedProxies: BlockList,
    credentialsOf: (request: IncomingMessage) => Credentials,
  ) {
    this.#clock = clock;
    this.#metrics = metrics;
    this.#trustedProxies = trustedProxies;
    this.#credentialsOf = credentialsOf;
  }

  /** Returns a 429 if the client address is rejected and the request has no valid credentials. */
  rejectionOf(request: IncomingMessage): Rejected | undefined {
    if (this.#isAdmitted(request)) return undefined;
    this.#metrics.rateLimited.inc({ limit: 'unauthenticated' });
    // Closes the client's connection, including all requests that wait on the connection. Never closes a trusted proxy's
    // connection, because other clients use that connection.
    const closes = !isTrusted(request.socket.remoteAddress ?? '', this.#trustedProxies);
    const headers = { 'Retry-After': String(REJECTED_FOR_S), ...(closes && { Connection: 'close' }) };
    return new Rejected('rate_limited', DETAIL, { headers });
  }

  count(request: IncomingMessage): void {
    if (this.#credentialsOf(request) === 'valid') return;
    this.#count(clientNetwork(request, this.#trustedProxies));
  }

  admitsConnection({ remoteAddress = '' }: Socket): boolean {
    const nowMs = this.#clock.now();
    if (nowMs >= this.#anyUntilMs) return true;
    const address = this.#addresses.get(networkOf(remoteAddress));
    if (address === undefined || nowMs >= address.rejectedUntilMs) return true;
    const second = Math.floor(nowMs / 1_000);
    if (address.second !== second) Object.assign(address, { second, connections: 0 });
    address.connections += 1;
    return address.connections <= CONNECTIONS_PER_SECOND;
  }

  countConnection({ remoteAddress = '' }: Socket): void {
    if (!isTrusted(remoteAddress, this.#trustedProxies)) this.#count(networkOf(remoteAddress));
  }

  #count(network: string): void {
    const nowMs = this.#clock.now();
    const address = this.#addresses.get(network) ?? {
      ...{ bucket: new Bucket(), rejectedUntilMs: 0, second: 0, connections: 0 },
    };
    this.#addresses.set(network, address);
    if (address.bucket.level(nowMs, RATE) >= 1) return void address.bucket.take(1);
    if (nowMs < address.rejectedUntilMs) return;
    address.rejectedUntilMs = nowMs + REJECTED_FOR_S * 1_000;
    this.#anyUntilMs = Math.max(this.#anyUntilMs, address.rejectedUntilMs);
  }

  #isAdmitted(request: IncomingMessage): boolean {
    const nowMs = this.#clock.now();
    if (nowMs >= this.#anyUntilMs) return true;
    const address = this.#addresses.get(clientNetwork(request, this.#trustedProxies));
    if (address === undefined || nowMs >= address.rejectedUntilMs) return true;
    const credentials = this.#credentialsOf(request);
    if (credentials !== 'unknown') return credentials === 'valid';
    // Allows a request with unknown credentials if its address is below the rate limit. The route checks the credentials fully.
    return address.bucket.level(nowMs, RATE) >= 1;
  }
}

const DETAIL = `too many requests without a valid token came from this address; try again in ${REJECTED_FOR_S} s, or with a valid token`;
