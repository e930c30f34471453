/** Tests that a slot keeps the later of two sessions, and that sessions are not confused. */
import { expect, test } from 'vitest';
import type { CachedSession } from './packedSessions.ts';
import { RecentSessions } from './recentSessions.ts';

const FAR = 2 ** 20;
/** These ids share one slot. The test keeps the session of the second id. */
const IDS = [
  ...[
    [0, 0, 0, 0],
    [1, 2, 3, 4],
  ],
  ...[
    [1, 2, 3, 4 + FAR],
    [1, 2, 9, 4],
    [1, 9, 3, 4],
    [1 + FAR, 2, 3, 4],
  ],
];
const WORDS = Uint32Array.from(IDS.flat());

test('finds a session by its project and all bytes of its id, until another one replaces it', () => {
  const recent = new RecentSessions();
  const kept = recent.add('project', aSession({ lane: 7, buildId: 'build' }), WORDS, 4);
  expect(kept).toMatchObject({ lane: 7, build: Buffer.from('build') });
  expect(recent.find('project', WORDS, 4)).toBe(kept);
  expect(recent.find('other', WORDS, 4)).toBeUndefined();
  for (const at of [8, 12, 16, 20]) expect(recent.find('project', WORDS, at)).toBeUndefined();
  const later = recent.add('project', aSession({ buildId: null }), WORDS, 8);
  expect(later.build).toBeNull();
  expect(recent.find('project', WORDS, 8)).toBe(later);
  expect(recent.find('project', WORDS, 4)).toBeUndefined();
});

test('finds as many sessions as there are slots', () => {
  const recent = new RecentSessions(8);
  const last = [7, 6, 5, 4, 3, 2, 1, 0];
  const words = Uint32Array.from(last.flatMap((n) => [n & 4, 0, 0, 2 ** 31 + (n & 3)]));
  const kept = last.map((lane, i) => recent.add('project', aSession({ lane }), words, i * 4));
  expect(last.map((_, i) => recent.find('project', words, i * 4))).toEqual(kept);
});

test('finds no session after the cache was cleared', () => {
  const recent = new RecentSessions();
  recent.add('project', aSession({}), WORDS, 4);
  recent.clear();
  expect(recent.find('project', WORDS, 4)).toBeUndefined();
});

function aSession(of: Partial<CachedSession>): CachedSession {
  const times = { startedAt: 0n, registeredAt: 0 };
  return { sessionId: 'session', buildId: null, lane: 0, player: 0, content: 0n, ...times, ...of };
}
