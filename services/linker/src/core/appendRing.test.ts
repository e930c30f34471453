import type { SeenAppends } from '@questlog/schemas/topics/linkerState';
import { expect, test } from 'vitest';
import { AppendRing } from './appendRing.ts';

const ids = (from: number, count: number): string[] =>
  Array.from({ length: count }, (_, i) => `id ${from + i}`);

/** The changelog's content: the latest entry of each slot. */
function changelogOf(ring: AppendRing, added: readonly string[]): Map<number, SeenAppends> {
  const slots = new Map<number, SeenAppends>();
  for (const [at, id] of added.entries())
    for (const slot of ring.add(id, at)) slots.set(slot, ring.slot(slot));
  return slots;
}

test('remembers the latest ids, whole slots at a time, and tells how far back they go', () => {
  const ring = new AppendRing(4, 3);
  for (const [at, id] of ids(0, 6).entries()) ring.add(id, 1_000 + at);
  expect(ring.since).toBe(0);
  for (const [at, id] of ids(6, 6).entries()) ring.add(id, 1_006 + at);
  expect(ring.since).toBe(1_003);
  expect(ids(0, 12).filter((id) => ring.has(id))).toEqual(ids(3, 9));
});

test.each([0, 1, 3, 8, 9, 12, 13, 25, 40])(
  'a new owner remembers what the old one did, after %i appends',
  (count) => {
    const old = new AppendRing(4, 3);
    const changelog = changelogOf(old, ids(0, count));
    const next = new AppendRing(4, 3);
    for (const [slot, held] of changelog) next.restore(slot, held);
    for (const more of ids(count, 10)) {
      const known = ids(0, count + 10);
      expect(known.filter((id) => next.has(id))).toEqual(known.filter((id) => old.has(id)));
      expect(next.add(more, count)).toEqual(old.add(more, count));
      expect(next.since).toBe(old.since);
    }
  },
);
