import { expect, test } from 'vitest';
import {
  type CredentialRejection,
  CredentialRejectionCounts,
  MAX_ADDRESSES,
} from './credentialRejections.ts';

function aRejection(of: Partial<CredentialRejection> = {}): CredentialRejection {
  const at = of.at ?? 1;
  const who = { actor: 'token:1', address: '10.0.0.1', method: 'GET', route: '/admin/tenants' };
  return { ...who, at, doneAt: at, status: 401, code: 'unauthorized', count: 1, ...of };
}

test('records the first rejection of an address at once, and the others of its minute as one count', () => {
  const counts = new CredentialRejectionCounts();
  const [first, second] = [aRejection({ at: 5 }), aRejection({ at: 7 })];
  expect(counts.note(first)).toEqual(first);
  expect(counts.note(second)).toBeUndefined();
  expect(counts.note(aRejection({ at: 9 }))).toBeUndefined();
  expect(counts.note(aRejection({ at: 8 }))).toBeUndefined();
  expect(counts.note(aRejection({ address: '10.0.0.2' }))).toBeDefined();
  expect(counts.take()).toEqual([{ ...second, doneAt: 9, count: 3 }]);
  // The next minute starts.
  expect(counts.take()).toEqual([]);
  expect(counts.note(first)).toEqual(first);
});

test('uses `several` for values that differ within a count', () => {
  const counts = new CredentialRejectionCounts();
  counts.note(aRejection());
  counts.note(aRejection({ actor: 'token:2' }));
  counts.note(aRejection({ actor: 'token:3', route: '/login', method: 'POST' }));
  expect(counts.take()).toMatchObject([
    { actor: 'several', route: 'several', method: 'several', address: '10.0.0.1', count: 2 },
  ]);
});

test('records a bounded number per minute for any number of addresses, and counts each rejection', () => {
  const counts = new CredentialRejectionCounts();
  const sent = Array.from({ length: 3_000 }, (_, n) =>
    aRejection({ address: `10.0.${n % 200}.1`, status: n % 3 === 0 ? 403 : 401 }),
  );
  const told = sent.flatMap((refusal) => counts.note(refusal) ?? []);
  expect(told.length).toBe(MAX_ADDRESSES);
  const counted = counts.take();
  expect(counted.length).toBeLessThanOrEqual(MAX_ADDRESSES + 2);
  expect([...told, ...counted].reduce((sum, { count }) => sum + count, 0)).toBe(sent.length);
  expect(counted.filter(({ address }) => address === 'several').map(({ status }) => status)).toEqual(
    expect.arrayContaining([401, 403]),
  );
});

test('keeps unwritten rejections for the end of the minute, within the same limit', () => {
  const counts = new CredentialRejectionCounts();
  for (let n = 0; n < 100; n++) counts.add(aRejection({ address: `10.0.0.${n}`, count: 3 }));
  const counted = counts.take();
  expect(counted.length).toBe(MAX_ADDRESSES + 1);
  expect(counted.reduce((sum, { count }) => sum + count, 0)).toBe(300);
});
