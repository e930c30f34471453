/** Tests the limit for requests without valid credentials, by address. */
import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import { expect, test } from 'vitest';
import { parseTrustedProxies } from './addresses.ts';
import { type Credentials, REJECTED_FOR_S, UnauthenticatedLimit } from './unauthenticated.ts';

const BURST = 5_000;

/** Sends requests. Counts each request that is not rejected, as the routes do. */
function aLimit(trusted = '') {
  let nowMs = 1_000_000;
  const limit = new UnauthenticatedLimit(
    { now: () => nowMs },
    { rateLimited: { inc: () => {} } } as never,
    parseTrustedProxies(trusted),
    ({ headers }) => (headers.authorization ?? 'none') as Credentials,
  );
  const send = (remoteAddress: string, of: { token?: Credentials; forwarded?: string } = {}) => {
    const headers = { authorization: of.token, 'x-forwarded-for': of.forwarded };
    const request = { socket: { remoteAddress }, headers } as unknown as IncomingMessage;
    const rejection = limit.rejectionOf(request);
    if (rejection === undefined) limit.count(request);
    return rejection;
  };
  /** Returns how many of `count` requests are not rejected. */
  const passed = (count: number, ...of: Parameters<typeof send>): number =>
    Array.from({ length: count }, () => send(...of)).filter((rejection) => rejection === undefined).length;
  const socketOf = (remoteAddress: string) => ({ remoteAddress }) as Socket;
  return {
    ...{ send, passed },
    pass: (seconds: number) => {
      nowMs += seconds * 1_000;
    },
    connect: (address: string) => limit.admitsConnection(socketOf(address)),
    countConnection: (address: string) => limit.countConnection(socketOf(address)),
  };
}

test('an address with too many requests is rejected for 30 s, and others are not', () => {
  const { passed, pass, send } = aLimit();
  expect(passed(BURST + 1_000, '192.0.2.1')).toBe(BURST + 1);
  expect(send('192.0.2.1')).toMatchObject({
    code: 'rate_limited',
    headers: { 'Retry-After': '30', Connection: 'close' },
  });
  expect(passed(10, '192.0.2.2')).toBe(10);
  pass(REJECTED_FOR_S - 1);
  expect(passed(10, '192.0.2.1')).toBe(0);
  pass(1);
  expect(passed(10, '192.0.2.1')).toBe(10);
});

test('never rejects 500 requests a second: 1,000 clients of one address, half of them with expired tokens', () => {
  const { passed, pass } = aLimit();
  for (let second = 0; second < 120; second += 1) {
    expect(passed(500, '192.0.2.1', { token: 'invalid' })).toBe(500);
    expect(passed(500, '192.0.2.1', { token: 'valid' })).toBe(500);
    pass(1);
  }
});

test('requests with a valid token are neither counted nor rejected', () => {
  const { passed } = aLimit();
  expect(passed(3 * BURST, '192.0.2.1', { token: 'valid' })).toBe(3 * BURST);
  expect(passed(2 * BURST, '192.0.2.1')).toBe(BURST + 1);

  expect(passed(3 * BURST, '192.0.2.1', { token: 'valid' })).toBe(3 * BURST);
  expect(passed(10, '192.0.2.1', { token: 'invalid' })).toBe(0);
});

test('credentials that only the route can check pass at the rate while their address is rejected', () => {
  const { passed, pass } = aLimit();
  expect(passed(2 * BURST, '192.0.2.1')).toBe(BURST + 1);
  expect(passed(10, '192.0.2.1', { token: 'unknown' })).toBe(0);
  pass(1);
  expect(passed(1_000, '192.0.2.1', { token: 'unknown' })).toBe(500);
});

test('behind a trusted proxy the client’s address counts, and the connection stays open', () => {
  const { passed, send, connect, countConnection } = aLimit('10.0.0.0/8');
  expect(passed(2 * BURST, '10.0.0.1', { forwarded: '198.51.100.1' })).toBe(BURST + 1);
  expect(send('10.0.0.2', { forwarded: '198.51.100.1' })?.headers).toEqual({ 'Retry-After': '30' });

  expect(passed(10, '10.0.0.1', { forwarded: '198.51.100.2' })).toBe(10);
  for (let i = 0; i < 2 * BURST; i += 1) countConnection('10.0.0.1');
  expect(Array.from({ length: 1_000 }, () => connect('10.0.0.1'))).not.toContain(false);
  expect(passed(10, '10.0.0.1', { forwarded: '198.51.100.2' })).toBe(10);
});

test('answers 100 new connections a second of a rejected address, and closes the others', () => {
  const { pass, connect, countConnection } = aLimit();
  const admitted = (address: string): number =>
    Array.from({ length: 1_000 }, () => connect(address)).filter(Boolean).length;
  expect(admitted('192.0.2.1')).toBe(1_000);
  for (let i = 0; i <= BURST; i += 1) countConnection('::ffff:192.0.2.1');

  expect([admitted('192.0.2.1'), admitted('192.0.2.2')]).toEqual([100, 1_000]);
  pass(1);
  expect(admitted('::ffff:192.0.2.1')).toBe(100);
  pass(REJECTED_FOR_S);
  expect(admitted('192.0.2.1')).toBe(1_000);
});

test('bounds the number of addresses: evicts the address that was inactive for the longest time', () => {
  const { passed } = aLimit();
  expect(passed(2 * BURST, '192.0.2.1')).toBe(BURST + 1);
  for (let i = 0; i < 10_000; i += 1) passed(1, `10.1.${i >> 8}.${i & 255}`);
  expect(passed(10, '192.0.2.1')).toBe(10);
});
