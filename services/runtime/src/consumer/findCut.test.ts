/** Where a log was cut is found by any rows that are left of what it held. */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { type LogRecord, LogTruncated, type OwnedPartition } from '../log/log.ts';
import { withMethods } from '../log/testing/withMethods.ts';
import { findCut, type HeldRecords, type HeldRow } from './findCut.ts';

const idOf = (record: LogRecord): string => record.value?.toString() ?? '';

/** The records are their names. */
function aReader(names: readonly string[]): OwnedPartition {
  let position = 0;
  return withMethods<OwnedPartition>({} as OwnedPartition, {
    partition: 0,
    signal: new AbortController().signal,
    position: () => position,
    seek: (_, offset) => {
      position = offset;
    },
    read: async ({ topic = 't' }) => {
      const end = names.length;
      if (position > end) throw new LogTruncated({ topic, partition: 0, offset: end, position });
      if (position === end) return undefined;
      const value = Buffer.from(names[position] ?? '');
      const record = { offset: position, timestampMs: 0, key: null, value, headers: {} };
      position += 1;
      return { topic: 't', partition: 0, records: [record], nextOffset: position };
    },
  });
}

function rowsHeld(rows: readonly HeldRow[]): HeldRecords {
  const nothing = async () => undefined;
  return {
    holdsFrom: async (offset) => rows.some((row) => row.offset >= offset),
    top: async () => rows.at(-1),
    nearest: async ({ above, below, about }) =>
      rows
        .filter(({ offset }) => offset > above && offset < below)
        .sort((a, b) => Math.abs(a.offset - about) - Math.abs(b.offset - about))[0],
    namesOf: async (record) => [idOf(record)],
    unfinished: nothing,
    repair: async () => 0,
    repaired: nothing,
  };
}

const run = fc.record({
  written: fc.integer({ min: 1, max: 60 }),
  /** Of the written records, those without rows: they were repeats, or dead letters. */
  bare: fc.array(fc.nat(59), { maxLength: 40 }),
  cut: fc.nat(60),
  grown: fc.nat(80),
  start: fc.nat(20),
  isProven: fc.boolean(),
});

test('every row of a lost record is behind the cut that is found, and none of a kept one', async () => {
  await fc.assert(
    fc.asyncProperty(run, async ({ written, bare, grown, isProven, ...at }) => {
      const cut = Math.min(at.cut, written);
      const start = Math.min(at.start, cut);
      const old = Array.from({ length: written }, (_, offset) => `old ${offset}`);
      const now = [...old.slice(0, cut), ...Array.from({ length: grown }, (_, i) => `new ${i}`)];
      const rows = old
        .map((name, offset) => ({ offset, name }))
        .filter(({ offset }) => !bare.includes(offset));
      const last = { offset: written - 1, id: `old ${written - 1}` };
      // A reader beyond the end is told so by the log.
      const told = now.length < written ? now.length : Infinity;
      const found = await findCut(
        {
          log: { startOffsets: async () => [start], endOffsets: async () => [now.length] },
          ...{ owned: aReader(now), topic: 't', held: rowsHeld(rows), idOf },
        },
        { offset: written, ...(isProven ? { last } : {}) },
        told,
      );
      const isSeen = isProven || told < written || rows.some(({ offset }) => offset >= cut);
      if (cut === written || !isSeen) {
        expect(found).toBeUndefined();
        return;
      }
      const keptRows = rows.filter(({ offset }) => offset >= start && offset < cut);
      expect(found).toMatchObject({
        offset: Math.max(start, (keptRows.at(-1)?.offset ?? -1) + 1),
        end: written,
      });
    }),
    { numRuns: 500 },
  );
});
