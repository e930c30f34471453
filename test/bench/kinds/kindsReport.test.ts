/** Tests the report of the kinds of requests. */
import { expect, test } from 'vitest';
import { kindsReport } from './kindsReport.ts';
import type { KindRow, KindsResult } from './measureKinds.ts';
import { KINDS, renewKey, requestOfKind } from './requestKinds.ts';

test('shows the cost of each kind relative to plain requests', () => {
  const report = kindsReport(aResult(aRow({ ratio: 1.238 }), aRow({ kind: 'gzip', ratio: 2, refused: 3 })));
  expect(report).toContain('| plain, CPU µs per event | 4.00 |  |');
  expect(report).toContain('| a new `Idempotency-Key` | 1.24 |');
  expect(report).toContain('| gzip | 2.00; 3 failed |');
});

test.each([
  ['keyed', '1.25'],
  ['replay', '1.5'],
  ['lenient', '1.25'],
  ['client', '–'],
  ['gzip', '1.3 at 500'],
  ['switch', '1.15'],
  ['sampled', '–'],
  ['report', '1.15'],
] as const)('shows the target of the kind %s', (kind, target) => {
  expect(kindsReport(aResult(aRow({ kind })))).toContain(`| ${KINDS[kind].title} | 1.00 | ${target} |`);
});

test('a renewed request has another key and otherwise the same bytes', () => {
  const request = requestOfKind(KINDS.keyed, 'http://localhost/events', 'a token', Buffer.from('[]'));
  const before = request.toString();
  renewKey(request);
  const keyOf = (text: string): string => /^Idempotency-Key: ([\da-f-]{36})\r$/m.exec(text)?.[1] ?? '';
  expect(keyOf(request.toString())).not.toBe(keyOf(before));
  expect(request.toString()).toBe(before.replace(keyOf(before), keyOf(request.toString())));
});

function aRow(of: Partial<KindRow>): KindRow {
  return {
    ...{ events: 500, connections: 8, kind: 'keyed', plainMicrosPerEvent: 4, ratio: 1 },
    ...{ cpuMicrosPerEvent: 5, requestsPerSecond: 10, refused: 0, timedOut: 0 },
    ...of,
  };
}

function aResult(...rows: KindRow[]): KindsResult {
  const run = {
    at: '2026-01-01T00:00:00Z',
    machine: '',
    node: '',
    kafka: '',
    loadBefore: 0,
    seconds: 1,
    runs: 1,
  };
  return { run, rows };
}
