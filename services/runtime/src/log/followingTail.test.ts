/** A tail begins inside what the log holds, or not at all. */
import { expect, test } from 'vitest';
import { startPositions } from './followingTail.ts';

const RANGES = [{ startOffset: 3, endOffset: 9 }];
const first = (offset: number) =>
  startPositions(RANGES, { topic: 'events', from: [offset], onBatch: async () => {} });

test('an offset outside what the log holds is moved into it', () => {
  expect([first(0), first(5), first(12)]).toEqual([[3], [5], [9]]);
});

test.each([-1, Number.NaN, 4.5])('what is no offset is refused: %s', (offset) => {
  expect(() => first(offset)).toThrow(`events/0: ${offset} is no offset`);
});
