/** Notes beside commits, of this version, of earlier ones, and of tools that write a text of their own there. */
import { expect, test } from 'vitest';
import { lastRecordOf, leaderEpochOf, metadataOf, resumeAt, tableOf } from './commitMetadata.ts';

const LAST = { offset: 9, id: 'b1', leaderEpoch: 4 };
const committed = (metadata: string) => ({ offset: 10, metadata });

test.each([
  ['', {}],
  ['not ours', {}],
  ['{"offset":3,"pendingTo":12}', { pendingTo: 12 }],
  [JSON.stringify({ last: LAST, upToEpoch: 3 }), { last: LAST, upToEpoch: 3 }],
])('the offset is the commit’s, whatever stands beside it: %s', (metadata, said) => {
  expect(metadataOf(committed(metadata))).toEqual({ offset: 10, ...said });
});

test('the leader epoch is that of the last record, or the one that was noted without it', () => {
  expect(leaderEpochOf(committed(JSON.stringify({ last: LAST, upToEpoch: 3 })))).toBe(4);
  expect(leaderEpochOf(committed('{"upToEpoch":3}'))).toBe(3);
  expect(leaderEpochOf(committed(''))).toBeUndefined();
  expect(lastRecordOf(committed(JSON.stringify({ last: LAST })))).toEqual(LAST);
  expect(lastRecordOf(undefined)).toBeUndefined();
});

test('a commit names the table that its rows are in, where whoever made it knew of one', () => {
  expect(tableOf(committed('{"tables":"of now"}'))).toBe('of now');
  expect(tableOf(committed(''))).toBeUndefined();
  expect(tableOf(undefined)).toBeUndefined();
});

test.each([
  ['a cut below the commit', { offset: 10 }, 7, { offset: 7 }],
  ['a cut at the commit, whose announced block is gone', { offset: 10, pendingTo: 20 }, 10, { offset: 10 }],
  ['a cut within the announced block', { offset: 10, pendingTo: 20 }, 15, { offset: 10, pendingTo: 15 }],
  ['a cut behind it', { offset: 10, pendingTo: 20 }, 25, { offset: 10, pendingTo: 20 }],
  ['a cut behind a commit without one', { offset: 10 }, 15, { offset: 10 }],
  ['the epoch goes along', { offset: 10, last: LAST }, 15, { offset: 10, upToEpoch: 4 }],
  ['the noted one before it', { offset: 10, last: LAST, upToEpoch: 5 }, 7, { offset: 7, upToEpoch: 5 }],
  [
    'also of a block',
    { offset: 10, pendingTo: 20, upToEpoch: 5 },
    15,
    { offset: 10, pendingTo: 15, upToEpoch: 5 },
  ],
])('goes on behind a cut: %s', (_, note, cut, goesOn) => {
  expect(resumeAt(note, cut)).toEqual(goesOn);
});
