import { expect, test } from 'vitest';
import { MAX_RECENT_APPENDS, RecentAppends } from './recentAppends.ts';

test('knows what it was given, and that this is all there is', () => {
  const recent = new RecentAppends(['a', 'b']);
  expect(recent.has('a')).toBe(true);
  expect(recent.has('c')).toBe(false);
  expect(recent.complete).toBe(true);
});

test('forgets the oldest at the bound, and then says that it does not know everything', () => {
  const recent = new RecentAppends([]);
  for (let i = 0; i <= MAX_RECENT_APPENDS; i++) recent.add(String(i));
  expect(recent.has('0')).toBe(false);
  expect(recent.has('1')).toBe(true);
  expect(recent.complete).toBe(false);
});
