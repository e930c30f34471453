import { expect, test } from 'vitest';
import { clockFinding, diskFinding, nodeFinding } from './doctor.ts';

const GIB = 1024 ** 3;
const NOON = Date.parse('2026-11-22T12:00:00Z');

test.each([
  [9 * GIB, 'ok'],
  [0.9 * GIB, 'warn'],
  [0.1 * GIB, 'fail'],
])('reports %d free bytes as %s', (freeBytes, state) => {
  expect(diskFinding(freeBytes).state).toBe(state);
});

test.each([
  ['Sun, 22 Nov 2026 11:59:56 GMT', 'ok'],
  ['Sun, 22 Nov 2026 12:00:04 GMT', 'ok'],
  ['Sun, 22 Nov 2026 11:59:54 GMT', 'warn'],
  ['Sun, 22 Nov 2026 12:00:06 GMT', 'warn'],
  [null, 'warn'],
])('reports a listener whose Date is %s at noon as %s', (date, state) => {
  expect(clockFinding(date, NOON).state).toBe(state);
});

test('reports no difference within the second that a Date header names', () => {
  expect(clockFinding('Sun, 22 Nov 2026 12:00:00 GMT', NOON + 999).found).toMatch(/^0 s/);
});

test('reports an older Node as a failure and says how to get a newer one', () => {
  expect(nodeFinding('24.21.0')).toEqual({ check: 'Node', state: 'ok', found: '24.21.0' });
  expect(nodeFinding('22.14.0')).toMatchObject({
    state: 'fail',
    cure: expect.stringContaining('24 or newer'),
  });
});
