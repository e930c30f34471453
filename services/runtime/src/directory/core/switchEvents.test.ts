/** Tests which events a project's switches match, and their effect. */
import { randomUUID } from 'node:crypto';
import type { Switch } from '@questlog/schemas/topics/directoryEntry';
import { expect, test } from 'vitest';
import { activeSwitches, playerNumber, type Switchable, switchEvents } from './switchEvents.ts';

const NOW = 1_000_000;
const AT = { nowMs: NOW, fallbackKey: 'the request' };
const [BUILD, OTHER] = [randomUUID(), randomUUID()];

test('a switch applies to its type and build, or to all events', () => {
  const drafts = [
    aDraft(0, { eventType: 'frame', buildId: BUILD }),
    aDraft(1, { eventType: 'Frame', buildId: BUILD }),
    aDraft(2, { eventType: 'frame', buildId: OTHER }),
    aDraft(3, { eventType: 'frame', buildId: null }),
  ];
  const refusedBy = (of: Partial<Switch>) =>
    switchEvents([aSwitch(of)], drafts, AT).rejectedElements.map(indexOf);

  expect(refusedBy({ eventType: 'frame', buildId: BUILD })).toEqual([0]);
  expect(refusedBy({ eventType: 'frame' })).toEqual([0, 2, 3]);
  expect(refusedBy({ buildId: BUILD })).toEqual([0, 1]);
  expect(refusedBy({})).toEqual([0, 1, 2, 3]);
});

test('rejects events with the reason, and keeps the others unchanged', () => {
  const drafts = [aDraft(4, { eventType: 'frame' }), aDraft(7)];
  const {
    kept,
    sampledOut,
    rejectedElements: refused,
  } = switchEvents([aSwitch({ eventType: 'frame', reason: 'floods' })], drafts, AT);
  expect([kept, sampledOut]).toEqual([[drafts[1]], []]);
  const detail = 'an operator has switched these events off: floods';
  expect(refused).toEqual([{ index: 4, pointer: '', code: 'switched_off', detail }]);
});

test('applies the first matching switch', () => {
  const drafts = [aDraft(0, { buildId: BUILD }), aDraft(1)];
  const all = aSwitch({ action: 'sample', sampleRate: 1 });
  const { kept, rejectedElements: refused } = switchEvents([aSwitch({ buildId: BUILD }), all], drafts, AT);

  expect([kept.map(indexOf), refused.map(indexOf)]).toEqual([[1], [0]]);
  expect(switchEvents([all, aSwitch({ buildId: BUILD })], drafts, AT).rejectedElements).toEqual([]);
});

test('ignores a switch after its end', () => {
  const ended = aSwitch({ until: NOW });
  const running = aSwitch({ until: NOW + 1, eventType: 'x' });

  const drafts = [aDraft(0)];
  expect(switchEvents([ended], drafts, AT)).toEqual({ kept: drafts, sampledOut: [], rejectedElements: [] });
  expect(switchEvents([running], [aDraft(0, { eventType: 'x' })], AT).rejectedElements).toHaveLength(1);
  expect(activeSwitches([ended, running], NOW)).toEqual([running]);
  expect(activeSwitches(undefined, NOW)).toEqual([]);
});

test('a sample keeps whole sessions at about its rate, and marks events with the rate', () => {
  const sessions = Array.from({ length: 4_000 }, () => randomUUID());
  const drafts = sessions.flatMap((sessionId, i) => [0, 1].map((n) => aDraft(2 * i + n, { sessionId })));
  const { kept, sampledOut } = switchEvents([aSwitch({ action: 'sample', sampleRate: 0.25 })], drafts, AT);
  const keptSessions = new Set(kept.map(({ sessionId }) => sessionId));

  expect(kept).toHaveLength(2 * keptSessions.size);
  expect(sampledOut.filter(({ sessionId }) => keptSessions.has(sessionId))).toEqual([]);
  // For 4,000 sessions, the standard deviation of the number of kept sessions is 27.
  expect(Math.abs(keptSessions.size - 1_000)).toBeLessThan(200);
  expect(kept.every(({ sampleRate }) => sampleRate === 0.25)).toBe(true);
  // Applies the switch at another time, in another request, and at another ingest process.
  const later = switchEvents([aSwitch({ action: 'sample', sampleRate: 0.25 })], drafts, {
    nowMs: NOW * 2,
    fallbackKey: 'another',
  });
  expect(later.kept).toEqual(kept);
});

test('a share selects the same players in all sessions, and grows with the share', () => {
  const players = Array.from({ length: 4_000 }, (_, i) => `player ${i}`);
  const drafts = players.flatMap((player, i) =>
    [0, 1].map((n) => {
      const sessionId = randomUUID();
      return aDraft(2 * i + n, { sessionId, player: playerNumber(player, sessionId) });
    }),
  );
  const refusedBy = (playerShare: number) =>
    switchEvents([aSwitch({ playerShare })], drafts, AT).rejectedElements.map(indexOf);
  const [some, more] = [refusedBy(0.1), new Set(refusedBy(0.3))];

  expect(some.filter((index) => index % 2 === 0).map((index) => index + 1)).toEqual(
    some.filter((index) => index % 2 === 1),
  );
  expect(Math.abs(some.length - 800)).toBeLessThan(200);
  expect(some.filter((index) => !more.has(index))).toEqual([]);
  expect(refusedBy(1)).toHaveLength(drafts.length);
});

test('the selection of players is independent of the selection of samples', () => {
  const drafts = Array.from({ length: 4_000 }, (_, i) => {
    const sessionId = randomUUID();
    return aDraft(i, { sessionId, player: playerNumber(null, sessionId) });
  });
  const half = { action: 'sample', sampleRate: 0.5, playerShare: 0.5 } as const;
  const { kept, sampledOut } = switchEvents([aSwitch(half)], drafts, AT);

  expect(Math.abs(sampledOut.length - 1_000)).toBeLessThan(200);
  expect(Math.abs(kept.filter(({ sampleRate }) => sampleRate === 0.5).length - 1_000)).toBeLessThan(200);
});

test('samples events without a session one by one, and equally at a retry', () => {
  const drafts = Array.from({ length: 1_000 }, (_, i) => aDraft(i, { sessionId: null, player: undefined }));
  const sample = [aSwitch({ action: 'sample', sampleRate: 0.5, playerShare: 0.5 })];
  const out = (fallbackKey: string) =>
    switchEvents(sample, drafts, { nowMs: NOW, fallbackKey }).sampledOut.map(indexOf);

  expect(out('a key')).toEqual(out('a key'));
  expect(out('a key')).not.toEqual(out('another'));
  expect(Math.abs(out('a key').length - 250)).toBeLessThan(100);
});

function indexOf({ index }: { readonly index: number }): number {
  return index;
}

function aSwitch(of: Partial<Switch> = {}): Switch {
  const forAll = { eventType: null, buildId: null, playerShare: null, sampleRate: null, until: null };
  return { ...forAll, action: 'reject', reason: 'R', ...of };
}

function aDraft(index: number, of: Partial<Switchable> = {}): Switchable {
  const sessionId = of.sessionId ?? randomUUID();
  const player = playerNumber(null, sessionId);
  return { index, sessionId, eventType: 'checkpoint', buildId: null, player, ...of };
}
