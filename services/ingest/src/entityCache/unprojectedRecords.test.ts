/** Tests that unprojected records are kept, within the limit, in log order. */
import type { LogRecord } from '@questlog/runtime/log/log';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { UnprojectedRecords } from './unprojectedRecords.ts';

function aRecord(offset: number, text = `${offset}`): LogRecord {
  return { offset, timestampMs: 0, key: 'k', value: Buffer.from(text), headers: { of: 'it' } };
}

function textsOf(records: readonly { readonly value: Buffer | null }[]): (string | undefined)[] {
  return records.map(({ value }) => value?.toString());
}

test('a truncation returns the partition’s records from its offset on, unchanged and once', () => {
  const kept = new UnprojectedRecords();
  for (const offset of [3, 4, 5]) kept.put(1, aRecord(offset));
  kept.put(0, aRecord(9));
  expect(kept.truncate(1, 4)).toEqual(
    [4, 5].map((n) => ({ key: 'k', value: Buffer.from(`${n}`), headers: { of: 'it' } })),
  );
  expect(kept.truncate(1, 4)).toEqual([]);
  expect(textsOf(kept.truncate(1, 0))).toEqual(['3']);
  expect(textsOf(kept.truncate(0, 0))).toEqual(['9']);
});

test('keeps a copy of a record, because its buffer is reused', () => {
  const kept = new UnprojectedRecords();
  const record = aRecord(0, 'as it was');
  kept.put(0, record);
  record.value?.fill(0);
  expect(textsOf(kept.truncate(0, 0))).toEqual(['as it was']);
});

test('uses the progress of one update at the next update, except after a truncation', () => {
  const kept = new UnprojectedRecords({ recordsPerUpdate: 2 });
  for (const offset of [0, 1, 2]) kept.put(0, aRecord(offset));
  expect(kept.needsProjected).toBe(true);
  kept.setProjected([2]);
  expect(kept.needsProjected).toBe(false);
  kept.setProjected([]);
  expect(textsOf(kept.truncate(0, 0))).toEqual(['2']);

  for (const offset of [0, 1]) kept.put(0, aRecord(offset));
  kept.setProjected([2]);
  kept.truncate(0, 2);
  // This progress belongs to the log before the truncation.
  kept.setProjected([]);
  expect(textsOf(kept.truncate(0, 0))).toEqual(['0', '1']);
});

test('keeps all unprojected records within the limit, and none above it', () => {
  const step = fc.oneof(
    fc.record({
      kind: fc.constant('put' as const),
      partition: fc.nat(1),
      bytes: fc.integer({ min: 0, max: 30 }),
    }),
    fc.record({
      kind: fc.constant('ask' as const),
      projected: fc.array(fc.nat(20), { minLength: 2, maxLength: 2 }),
    }),
    fc.record({ kind: fc.constant('cut' as const), partition: fc.nat(1), offset: fc.nat(20) }),
  );
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
      const maxBytes = 100;
      const kept = new UnprojectedRecords({ maxBytes });
      let model: { partition: number; offset: number; bytes: number }[] = [];
      const ends = [0, 0];
      let answer: number[] = [];
      for (const one of steps) {
        if (one.kind === 'put') {
          const offset = ends[one.partition] ?? 0;
          ends[one.partition] = offset + 1;
          kept.put(one.partition, { ...aRecord(offset), key: null, value: Buffer.alloc(one.bytes) });
          model.push({ partition: one.partition, offset, bytes: one.bytes });
          const total = () => model.reduce((sum, { bytes }) => sum + bytes, 0);
          while (total() > maxBytes) model.shift();
          expect(kept.bytes).toBe(total());
        } else if (one.kind === 'ask') {
          const before = answer;
          model = model.filter(({ partition, offset }) => offset >= (before[partition] ?? 0));
          answer = one.projected;
          kept.setProjected(answer);
        } else {
          const isCut = ({ partition, offset }: (typeof model)[number]) =>
            partition === one.partition && offset >= one.offset;
          const lost = model.filter(isCut);
          model = model.filter((record) => !isCut(record));
          answer = [];
          ends[one.partition] = Math.min(ends[one.partition] ?? 0, one.offset);
          expect(kept.truncate(one.partition, one.offset).map(({ value }) => value?.length)).toEqual(
            lost.map(({ bytes }) => bytes),
          );
        }
      }
    }),
  );
});
