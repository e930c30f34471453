/** Tests commit metadata of this version, of earlier versions, and of tools that write other text. */
import { APPEND_ID_HEADER } from '@questlog/schemas/topics/topics';
import { expect, test } from 'vitest';
import { lastRecordOf, leaderEpochOf, metadataOf, recordIdOf, resumeAt, tableOf } from './commitMetadata.ts';

const LAST = { offset: 9, id: 'b1', leaderEpoch: 4 };
const committed = (metadata: string) => ({ offset: 10, metadata });

test.each([
  ['', {}],
  ['not ours', {}],
  ['{"offset":3,"pendingTo":12}', { pendingTo: 12 }],
  [JSON.stringify({ last: LAST, upToEpoch: 3 }), { last: LAST, upToEpoch: 3 }],
])('takes the offset from the commit, whatever its metadata is: %s', (metadata, said) => {
  expect(metadataOf(committed(metadata))).toEqual({ offset: 10, ...said });
});

test('returns the leader epoch of the last record or, without one, the recorded epoch', () => {
  expect(leaderEpochOf(committed(JSON.stringify({ last: LAST, upToEpoch: 3 })))).toBe(4);
  expect(leaderEpochOf(committed('{"upToEpoch":3}'))).toBe(3);
  expect(leaderEpochOf(committed(''))).toBeUndefined();
  expect(lastRecordOf(committed(JSON.stringify({ last: LAST })))).toEqual(LAST);
  expect(lastRecordOf(undefined)).toBeUndefined();
});

test('returns the table that a commit names, and undefined for a commit that names none', () => {
  expect(tableOf(committed('{"tables":"of now"}'))).toBe('of now');
  expect(tableOf(committed(''))).toBeUndefined();
  expect(tableOf(undefined)).toBeUndefined();
});

test.each([
  ['a truncation below the commit', { offset: 10 }, 7, { offset: 7 }],
  ['a truncation at the commit removes the pending block', { offset: 10, pendingTo: 20 }, 10, { offset: 10 }],
  ['a truncation within the pending block', { offset: 10, pendingTo: 20 }, 15, { offset: 10, pendingTo: 15 }],
  ['a truncation after the pending block', { offset: 10, pendingTo: 20 }, 25, { offset: 10, pendingTo: 20 }],
  ['a truncation after a commit without a pending block', { offset: 10 }, 15, { offset: 10 }],
  ['keeps the leader epoch of the last record', { offset: 10, last: LAST }, 15, { offset: 10, upToEpoch: 4 }],
  [
    'prefers the recorded leader epoch',
    { offset: 10, last: LAST, upToEpoch: 5 },
    7,
    { offset: 7, upToEpoch: 5 },
  ],
  [
    'keeps the leader epoch of a pending block',
    { offset: 10, pendingTo: 20, upToEpoch: 5 },
    15,
    { offset: 10, pendingTo: 15, upToEpoch: 5 },
  ],
])('resumes after a truncation: %s', (_, note, cut, goesOn) => {
  expect(resumeAt(note, cut)).toEqual(goesOn);
});

test('the id of a record is its append id or, if that is missing or long, a digest of its key and value', () => {
  const idOf = (key: string | null, value: string, appendId?: string) =>
    recordIdOf({
      ...{ offset: 0, timestampMs: 0, key, value: Buffer.from(value) },
      headers: appendId === undefined ? {} : { [APPEND_ID_HEADER]: appendId },
    });
  expect(idOf('key', 'value', 'a'.repeat(64))).toBe('a'.repeat(64));
  const digests = [idOf(null, 'value'), idOf('key', 'value'), idOf('other', 'value'), idOf('key', 'other')];
  expect(new Set(digests.map(({ length }) => length))).toEqual(new Set([43]));
  expect(new Set(digests).size).toBe(4);
  expect(idOf('key', 'value', 'a'.repeat(65))).toBe(digests[1]);
});
