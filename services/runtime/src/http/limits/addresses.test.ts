import type { IncomingMessage } from 'node:http';
import { expect, test } from 'vitest';
import type { Principal } from '../../directory/directory.ts';
import { MAX_ADDRESSES, openAddressLimits, parseTrustedProxies } from './addresses.ts';

let nowMs = 0;
const refusals: unknown[] = [];

/** Creates limits of one request per second. */
function limits(trusted = '') {
  nowMs = 1_000_000;
  refusals.length = 0;
  const { admit } = openAddressLimits(
    { now: () => nowMs },
    { rateLimited: { inc: (labels: unknown) => refusals.push(labels) } } as never,
    parseTrustedProxies(trusted),
  );
  /** Returns how many of `count` requests pass. */
  return (remoteAddress: string, count = 1, { forwarded, ...of }: Given = {}): number => {
    const headers = forwarded === undefined ? {} : { 'x-forwarded-for': forwarded };
    const request = { socket: { remoteAddress }, headers } as unknown as IncomingMessage;
    const principal = { tokenId: 'a', addressRequestsPerSecond: 1, ...of } as unknown as Principal;
    return Array.from({ length: count }, () => {
      try {
        admit(principal, request);
        return 1;
      } catch (error) {
        expect(error).toMatchObject({ code: 'rate_limited', headers: { 'Retry-After': '1' } });
        return 0;
      }
    }).filter((passed) => passed === 1).length;
  };
}

interface Given extends Partial<Principal> {
  readonly forwarded?: string;
}

test('limits an address to its rate and a burst of ten seconds, independent of other addresses', () => {
  const sent = limits();

  expect(sent('192.0.2.1', 15)).toBe(10);
  expect(refusals).toEqual(Array(5).fill({ limit: 'address-requests' }));
  expect(sent('192.0.2.2')).toBe(1);
  nowMs += 3_000;
  expect(sent('192.0.2.1', 15)).toBe(3);
});

test('does not limit a token without a rate per address, or count another token’s requests', () => {
  const sent = limits();
  expect(sent('192.0.2.1', 100, { addressRequestsPerSecond: undefined } as never)).toBe(100);
  expect(sent('192.0.2.1', 11)).toBe(10);

  expect(sent('192.0.2.1', 1, { tokenId: 'b' })).toBe(1);
});

test('a token and its successor have one rate', () => {
  const sent = limits();
  expect(sent('192.0.2.1', 10)).toBe(10);

  expect(sent('192.0.2.1', 1, { tokenId: 'b', firstTokenId: 'a' })).toBe(0);
});

test.each([
  ['2001:db8::1', '2001:db8:0:0:ffff::9'],
  ['::ffff:192.0.2.1', '192.0.2.1'],
  ['fe80::1%eth0', 'fe80::2%eth1'],
])('%s and %s count as one address', (one, other) => {
  const sent = limits();
  expect(sent(one, 10)).toBe(10);

  expect(sent(other)).toBe(0);
});

test.each([
  ['2001:db8::1', '2001:db8:0:1::1'],
  ['192.0.2.1', '192.0.2.2'],
])('%s and %s count as two addresses', (one, other) => {
  const sent = limits();
  expect(sent(one, 10)).toBe(10);

  expect(sent(other)).toBe(1);
});

test('ignores X-Forwarded-For of an untrusted peer', () => {
  const sent = limits('10.0.0.0/8');
  expect(sent('192.0.2.1', 10, { forwarded: '198.51.100.1' })).toBe(10);

  expect(sent('192.0.2.1', 1, { forwarded: '198.51.100.2' })).toBe(0);
});

test('uses the right-most address that is not a trusted proxy', () => {
  const sent = limits('10.0.0.0/8, fd00::1');
  expect(sent('10.0.0.1', 10, { forwarded: '203.0.113.1, 198.51.100.1:4711, fd00::1' })).toBe(10);

  expect(sent('10.0.0.2', 1, { forwarded: '203.0.113.9, 198.51.100.1' })).toBe(0);
  expect(sent('::ffff:10.0.0.2', 1, { forwarded: '198.51.100.1' })).toBe(0);
  expect(sent('10.0.0.2', 1, { forwarded: '198.51.100.2' })).toBe(1);
});

test('uses the proxy’s address if the proxy names none', () => {
  const sent = limits('10.0.0.1');
  expect(sent('10.0.0.1', 10, { forwarded: 'unknown' })).toBe(10);

  expect(sent('10.0.0.1', 1, { forwarded: '' })).toBe(0);
  expect(sent('10.0.0.1')).toBe(0);
});

test('evicts the least recently used address above the limit', () => {
  const sent = limits();
  const nth = (n: number) => `10.${n >> 16}.${(n >> 8) & 255}.${n & 255}`;
  expect(sent('192.0.2.1', 10)).toBe(10);
  for (let n = 1; n < MAX_ADDRESSES; n++) sent(nth(n));
  expect(sent('192.0.2.1')).toBe(0);
  sent(nth(MAX_ADDRESSES), 10);

  expect(sent(nth(1), 11)).toBe(10);
  expect(sent('192.0.2.1')).toBe(0);
});

test.each(['10.0.0', '10.0.0.0/33', '::/129', '10.0.0.0/8/8', 'proxy.local', '10.0.0.0/x'])(
  'rejects %s as a proxy',
  (text) => {
    expect(() => parseTrustedProxies(`127.0.0.1, ${text}`)).toThrow(
      `QUESTLOG_TRUSTED_PROXIES: ${text} is not an address`,
    );
  },
);
