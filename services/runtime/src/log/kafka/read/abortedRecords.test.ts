import { expect, test } from 'vitest';
import { dropAborted } from './fetchAnswer.ts';

test('keeps everything where nothing was aborted', () => {
  const messages = [aRecord(0, '7'), aMarker(1, '7', 'commit')];
  expect(dropAborted(messages, [])).toBe(messages);
});

test('drops an aborted transaction up to its marker, and keeps what the producer wrote after', () => {
  const messages = [
    aRecord(0, '7'),
    aRecord(1, '7'),
    aMarker(2, '7', 'abort'),
    aRecord(3, '7'),
    aMarker(4, '7', 'commit'),
  ];
  expect(kept(messages, [{ producerId: '7', firstOffset: '0' }])).toEqual([2, 3, 4]);
});

test('keeps what others wrote in between', () => {
  const messages = [
    aRecord(0, '7'),
    aRecord(1, '8'),
    aRecord(2, '-1', { inTransaction: false }),
    aRecord(3, '7'),
    aMarker(4, '7', 'abort'),
    aMarker(5, '8', 'commit'),
  ];
  expect(kept(messages, [{ producerId: '7', firstOffset: '0' }])).toEqual([1, 2, 4, 5]);
});

test('drops several that were open before the first record that was fetched', () => {
  const messages = [aRecord(10, '8'), aRecord(11, '7'), aMarker(12, '7', 'abort'), aMarker(13, '8', 'abort')];
  const aborted = [
    { producerId: '7', firstOffset: '3' },
    { producerId: '8', firstOffset: '4' },
  ];
  expect(kept(messages, aborted)).toEqual([12, 13]);
});

test('takes the list in any order: brokers give it by the end of the transactions', () => {
  const messages = [aRecord(0, '7'), aRecord(1, '8'), aMarker(2, '8', 'abort'), aMarker(3, '7', 'abort')];
  const aborted = [
    { producerId: '8', firstOffset: '1' },
    { producerId: '7', firstOffset: '0' },
  ];
  expect(kept(messages, aborted)).toEqual([2, 3]);
});

test('drops two aborted transactions of one producer, and not the committed one between them', () => {
  const messages = [
    aRecord(0, '7'),
    aMarker(1, '7', 'abort'),
    aRecord(2, '7'),
    aMarker(3, '7', 'commit'),
    aRecord(4, '7'),
    aMarker(5, '7', 'abort'),
  ];
  const aborted = [
    { producerId: '7', firstOffset: '0' },
    { producerId: '7', firstOffset: '4' },
  ];
  expect(kept(messages, aborted)).toEqual([1, 2, 3, 5]);
});

test('is not ended by a record whose key looks like a marker', () => {
  const messages = [aRecord(0, '7', { key: Buffer.alloc(4) }), aRecord(1, '7'), aMarker(2, '7', 'abort')];
  expect(kept(messages, [{ producerId: '7', firstOffset: '0' }])).toEqual([2]);
});

function kept(messages: ReturnType<typeof aRecord>[], aborted: Parameters<typeof dropAborted>[1]): number[] {
  return dropAborted(messages, aborted).map(({ offset }) => Number(offset));
}

function aRecord(
  offset: number,
  producerId: string,
  { inTransaction = true, key = Buffer.from('key') } = {},
) {
  return {
    offset: String(offset),
    key,
    isControlRecord: false,
    batchContext: { producerId, inTransaction },
  };
}

function aMarker(offset: number, producerId: string, type: 'abort' | 'commit') {
  const key = Buffer.from([0, 0, 0, type === 'abort' ? 0 : 1]);
  return { ...aRecord(offset, producerId, { key }), isControlRecord: true };
}
