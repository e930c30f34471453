/** Tests the truncation, the expiry, and the size limit of the index of dead letters. */

import { randomUUID } from 'node:crypto';
import { GROUPS, TOPICS } from '@questlog/schemas/topics/topics';
import { expect, test } from 'vitest';
import { DeadLetterIndex, type IndexedDeadLetter } from './deadLetterIndex.ts';

function aLetter(of: Partial<IndexedDeadLetter> = {}): IndexedDeadLetter {
  return {
    ...{ id: randomUUID(), group: GROUPS.link, topic: 'topic', partition: 0, offset: 0, valueBytes: 1 },
    ...{ key: null, reason: 'a test', deadAtMs: 1, position: { partition: 0, offset: 0 } },
    ...of,
  };
}

const DISCARDED = { state: 'discarded', atMs: 2 } as const;

test('a truncation removes dead letters and decisions of that partition from that offset on', () => {
  const memory = new DeadLetterIndex();
  const [remaining, other] = [aLetter(), aLetter({ position: { partition: 1, offset: 9 } })];
  const lost = aLetter({ position: { partition: 0, offset: 2 } });
  for (const deadLetter of [remaining, lost, other]) memory.put(deadLetter);
  memory.decide(remaining.id, { ...DISCARDED, offset: 3 });
  memory.decide(other.id, { ...DISCARDED, offset: 10 });
  expect(memory.openByGroup().get(GROUPS.link)).toBe(1);
  memory.onTruncated({ topic: TOPICS.deadLetters, partition: 0, offset: 2 });
  expect(memory.find(lost.id)).toBeUndefined();
  expect([remaining, other].map(({ id }) => memory.find(id)?.decision?.state)).toEqual([
    undefined,
    'discarded',
  ]);
  expect(memory.openByGroup().get(GROUPS.link)).toBe(1);
});

test('removes dead letters that have expired', () => {
  const memory = new DeadLetterIndex();
  const [old, young] = [aLetter(), aLetter({ position: { partition: 0, offset: 1 } })];
  for (const deadLetter of [old, young]) memory.put(deadLetter);
  memory.expire([1, 0]);
  expect([old, young].map(({ id }) => memory.find(id)?.deadLetter)).toEqual([undefined, young]);
  expect(memory.openByGroup().get(GROUPS.link)).toBe(1);
});

test('keeps the newest dead letters, and counts a duplicate or a second decision once', () => {
  const memory = new DeadLetterIndex(2);
  const deadLetters = [aLetter(), aLetter(), aLetter()];
  for (const deadLetter of [...deadLetters, ...deadLetters.slice(1)]) memory.put(deadLetter);
  expect(deadLetters.map(({ id }) => memory.find(id) !== undefined)).toEqual([false, true, true]);
  memory.decide(deadLetters[1]?.id ?? '', { ...DISCARDED, offset: 3 });
  memory.decide(deadLetters[1]?.id ?? '', { state: 'replayed', atMs: 3, offset: 4 });
  memory.decide(deadLetters[0]?.id ?? '', { ...DISCARDED, offset: 5 });
  expect(memory.find(deadLetters[1]?.id ?? '')?.decision?.state).toBe('discarded');
  expect(memory.openByGroup().get(GROUPS.link)).toBe(1);
});

test('counts dead letters of unknown groups as one group, and finds them by their own group', () => {
  const memory = new DeadLetterIndex();
  const deadLetters = ['made-up-1', 'made-up-2', GROUPS.link].map((group) => aLetter({ group }));
  for (const deadLetter of deadLetters) memory.put(deadLetter);
  expect([...memory.openByGroup()].filter(([, open]) => open > 0)).toEqual([
    [GROUPS.link, 1],
    ['other', 2],
  ]);
  memory.decide(deadLetters[0]?.id ?? '', { ...DISCARDED, offset: 3 });
  expect(memory.openByGroup().get('other')).toBe(1);
  expect(memory.find(deadLetters[1]?.id ?? '')?.deadLetter.group).toBe('made-up-2');
});
