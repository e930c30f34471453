/** Limits the request rate per token and client address, because players can extract a token from a game. */
import type { IncomingMessage } from 'node:http';
import { BlockList, isIP, isIPv4, isIPv6 } from 'node:net';
import type { Principal } from '../../directory/directory.ts';
import { BoundedMap } from '../../process/boundedMap.ts';
import type { Clock } from '../../process/clock.ts';
import { setting } from '../../process/config.ts';
import { Bucket } from '../core/bucket.ts';
import type { HttpMetrics } from '../metrics.ts';
import { Rejected } from '../rejected.ts';

export interface AddressLimits {
  /** Counts a request. @throws Rejected 429 if the client address sends too many requests with this token */
  admit(principal: Principal, request: IncomingMessage): void;
}

/** Maximum number of token and address pairs in memory. The least recently used pair is evicted. */
export const MAX_ADDRESSES = 50_000;
const BURST_SECONDS = 10;

export function openAddressLimits(
  clock: Clock,
  metrics: Pick<HttpMetrics, 'rateLimited'>,
  trustedProxies: BlockList,
): AddressLimits {
  const buckets = new BoundedMap<string, Bucket>(MAX_ADDRESSES);
  return {
    admit: (principal, request) => {
      const { addressRequestsPerSecond: perSecond, firstTokenId, tokenId } = principal;
      if (perSecond === undefined) return;
      // A token and its rotated successor share a bucket, because a rotation must not double the rate.
      const key = `${firstTokenId ?? tokenId} ${clientNetwork(request, trustedProxies)}`;
      const bucket = buckets.get(key) ?? new Bucket();
      buckets.set(key, bucket);
      const level = bucket.level(clock.now(), { perSecond, capacity: perSecond * BURST_SECONDS });
      if (level >= 1) return bucket.take(1);
      metrics.rateLimited.inc({ limit: 'address-requests' });
      const seconds = Math.ceil((1 - level) / perSecond);
      throw new Rejected(
        'rate_limited',
        `with this token an address may send ${perSecond} requests a second; try again in ${seconds} s`,
        { headers: { 'Retry-After': String(seconds) } },
      );
    },
  };
}

export const proxySettings = {
  trustedProxies: setting.optional({
    env: 'QUESTLOG_TRUSTED_PROXIES',
    description:
      'Addresses and networks of trusted proxies in front of the listener for games, separated by commas. The `X-Forwarded-For` header of a trusted proxy determines the client’s address for the limits per address.',
  }),
} as const;

/** Parses a list of addresses and networks (`10.0.0.0/8`). @throws Error that contains the invalid text */
export function parseTrustedProxies(text: string): BlockList {
  const proxies = new BlockList();
  for (const part of text.split(',').map((each) => each.trim())) {
    if (part === '') continue;
    const [address = '', bits, ...more] = part.split('/');
    const family = isIPv4(address) ? 'ipv4' : 'ipv6';
    const maxPrefix = family === 'ipv4' ? 32 : 128;
    const prefix = bits === undefined ? maxPrefix : /^\d{1,3}$/.test(bits) ? Number(bits) : Number.NaN;
    if (isIP(address) === 0 || more.length > 0 || !(prefix <= maxPrefix)) {
      throw new Error(`QUESTLOG_TRUSTED_PROXIES: ${part} is not an address or a network, such as 10.0.0.0/8`);
    }
    proxies.addSubnet(address, prefix, family);
  }
  return proxies;
}

export function clientNetwork(request: IncomingMessage, trusted: BlockList): string {
  return networkOf(clientAddress(request, trusted));
}

export function isTrusted(address: string, trusted: BlockList): boolean {
  const text = normalized(address);
  return isIP(text) !== 0 && trusted.check(text, isIPv4(text) ? 'ipv4' : 'ipv6');
}

/**
 * Returns the socket's peer or, if the peer is a trusted proxy, the right-most `X-Forwarded-For` entry that is not a trusted
 * proxy. Entries further left can be forged.
 */
function clientAddress({ socket, headers }: IncomingMessage, trusted: BlockList): string {
  let client = normalized(socket.remoteAddress ?? '');
  const header = headers['x-forwarded-for'] ?? '';
  const hops = (Array.isArray(header) ? header.join(',') : header).split(',');
  while (isTrusted(client, trusted)) {
    const previousHop = normalized((hops.pop() ?? '').trim());
    if (isIP(previousHop) === 0) break;
    client = previousHop;
  }
  return client;
}

/** Removes the brackets and the port of an address. Converts an IPv4-mapped IPv6 address to IPv4. */
function normalized(text: string): string {
  const address = /^\[([^\]]*)\](?::\d+)?$/.exec(text)?.[1] ?? text.replace(/^([\d.]+):\d+$/, '$1');
  return address.replace(/^::ffff:(?=[\d.]+$)/i, '');
}

/** Returns the IPv4 address, or the first 64 bits of the IPv6 address, because a client can choose the last 64 bits freely. */
export function networkOf(remoteAddress: string): string {
  const address = normalized(remoteAddress);
  if (!isIPv6(address)) return address;
  // The class `URL` converts an IPv6 address to its canonical form.
  const [head = '', tail] = new URL(`http://[${address.split('%')[0]}]`).hostname.slice(1, -1).split('::');
  const [first, last] = [head, tail ?? ''].map((part) => (part === '' ? [] : part.split(':')));
  const zeros = tail === undefined ? 0 : 8 - (first?.length ?? 0) - (last?.length ?? 0);
  return [...(first ?? []), ...Array.from({ length: zeros }, () => '0'), ...(last ?? [])]
    .slice(0, 4)
    .join(':');
}
