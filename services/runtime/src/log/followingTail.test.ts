/** The start positions of a tail are limited to the offsets that the log has. */
import { expect, test } from 'vitest';
import { startPositions } from './followingTail.ts';

const RANGES = [{ startOffset: 3, endOffset: 9 }];
const first = (offset: number) =>
  startPositions(RANGES, { topic: 'events', from: [offset], onBatch: async () => {} });

test('limits a start offset to the range that the log has', () => {
  expect([first(0), first(5), first(12)]).toEqual([[3], [5], [9]]);
});

test.each([-1, Number.NaN, 4.5])('rejects %s as a start offset', (offset) => {
  expect(() => first(offset)).toThrow(`events/0: ${offset} is no offset`);
});
