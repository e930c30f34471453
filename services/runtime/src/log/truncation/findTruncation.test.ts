/** Tests that the search finds the truncation of a log, whatever rows remain. */
import { APPEND_ID_HEADER } from '@questlog/schemas/topics/topics';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { Unavailable } from '../../process/errors.ts';
import { type Log, type LogRecord, LogTruncated, type OwnedPartition } from '../log.ts';
import type { CommitMetadata } from '../projection/commitMetadata.ts';
import { withMethods } from '../testing/alteredLog.ts';
import {
  checkStoredRows,
  findTruncation,
  offsetRangeOf,
  type StoredRow,
  type StoredRows,
} from './findTruncation.ts';

const idOf = (record: LogRecord): string => record.value?.toString() ?? '';

/** Number of random runs. The number is lower for mutants, because each mutant repeats the runs. */
const RUNS = process.env['QUESTLOG_TEST_RUNS'] === 'mutants' ? 100 : 500;

function aLog(startOffset: number, endOffset: number): Pick<Log, 'offsetRanges' | 'endOffset'> {
  return { offsetRanges: async () => [{ startOffset, endOffset }], endOffset: async () => endOffset };
}

/** Returns a partition whose records are represented by their names. */
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
      const record = {
        offset: position,
        timestampMs: 0,
        key: null,
        value,
        headers: { [APPEND_ID_HEADER]: String(value) },
      };
      position += 1;
      return { topic: 't', partition: 0, records: [record], nextOffset: position };
    },
  });
}

function storedRowsOf(rows: readonly StoredRow[]): StoredRows {
  const nothing = async () => undefined;
  return {
    hasRowsFrom: async (offset) => rows.some((row) => row.offset >= offset),
    highestRow: async (above) => rows.filter(({ offset }) => offset > above).at(-1),
    nearestRow: async ({ above, below, about }) =>
      rows
        .filter(({ offset }) => offset > above && offset < below)
        .sort((a, b) => Math.abs(a.offset - about) - Math.abs(b.offset - about))[0],
    rowNamesOf: async (record) => [idOf(record)],
    unfinishedRepair: nothing,
    repair: async () => 0,
    markRepaired: nothing,
  };
}

const run = fc.record({
  written: fc.integer({ min: 1, max: 60 }),
  /** Offsets of written records that have no rows, because they are duplicates or dead letters. */
  bare: fc.array(fc.nat(59), { maxLength: 40 }),
  truncatedAt: fc.nat(60),
  grown: fc.nat(80),
  start: fc.nat(20),
  isProven: fc.boolean(),
});

test('the truncation that is found is below every row of a lost record and above every row of a kept one', async () => {
  await fc.assert(
    fc.asyncProperty(run, async ({ written, bare, grown, isProven, ...at }) => {
      const truncatedAt = Math.min(at.truncatedAt, written);
      const start = Math.min(at.start, truncatedAt);
      const old = Array.from({ length: written }, (_, offset) => `old ${offset}`);
      const now = [...old.slice(0, truncatedAt), ...Array.from({ length: grown }, (_, i) => `new ${i}`)];
      const rows = old
        .map((name, offset) => ({ offset, name }))
        .filter(({ offset }) => !bare.includes(offset));
      const last = { offset: written - 1, id: `old ${written - 1}` };
      // The log reports the truncation if the reader's position is beyond the end of the log.
      const reported = now.length < written ? now.length : Infinity;
      const found = await findTruncation(
        {
          log: aLog(start, now.length),
          ...{ owned: aReader(now), topic: 't', storedRows: storedRowsOf(rows) },
        },
        { offset: written, ...(isProven ? { last } : {}) },
        reported,
      );
      const isSeen = isProven || reported < written || rows.some(({ offset }) => offset >= truncatedAt);
      if (truncatedAt === written || !isSeen) {
        expect(found).toBeUndefined();
        return;
      }
      const keptRows = rows.filter(({ offset }) => offset >= start && offset < truncatedAt);
      expect(found).toMatchObject({
        offset: Math.max(start, (keptRows.at(-1)?.offset ?? -1) + 1),
        end: written,
      });
    }),
    { numRuns: RUNS },
  );
});

/** Searches for a truncation. By default, five records were written, and each record has a row. */
async function find({
  now = OLD,
  start = 0,
  rows = OLD.map((name, offset) => ({ offset, name })),
  note = { offset: 5, last: { offset: 4, id: 'old 4' } },
  reported = Infinity,
  owned = aReader(now),
}: {
  now?: readonly string[];
  start?: number;
  rows?: readonly StoredRow[];
  note?: CommitMetadata;
  reported?: number;
  owned?: OwnedPartition;
}) {
  const log = aLog(start, now.length);
  return await findTruncation({ log, owned, topic: 't', storedRows: storedRowsOf(rows) }, note, reported);
}
const OLD = ['old 0', 'old 1', 'old 2', 'old 3', 'old 4'];

test('finds a truncation of records without rows by the last record alone, after the log has grown again', async () => {
  const now = ['old 0', 'old 1', 'old 2', 'new 3', 'new 4', 'new 5'];
  const rows = [0, 1, 2].map((offset) => ({ offset, name: `old ${offset}` }));
  // If the truncation were not found, the new records at these offsets would be skipped.
  expect(await find({ now, rows })).toEqual({ offset: 3, end: 5, lost: 'old 4' });
});

test('reads only rows above the last record if that record is unchanged', async () => {
  const storedRows = storedRowsOf(OLD.map((name, offset) => ({ offset, name })));
  const lookups: number[] = [];
  const watched = {
    ...storedRows,
    highestRow: (above: number) => storedRows.highestRow(lookups.push(above) && above),
  };
  const log = aLog(0, 5);
  const deps = { log, owned: aReader(OLD), topic: 't', storedRows: watched };
  await findTruncation(deps, { offset: 5, last: { offset: 4, id: 'old 4' } });
  await findTruncation(deps, { offset: 5 });
  expect(lookups).toEqual([4, -1]);
});

test.each([3, 4])(
  'trusts a truncation that the log reports, although offset %i looks unchanged',
  async (reported) => {
    expect(await find({ reported })).toEqual({ offset: reported, end: 5, lost: 'old 4' });
    expect(await find({ reported: 5 })).toBeUndefined();
  },
);

test('without a last record, the newest row determines the end and the last lost record', async () => {
  const now = ['old 0', 'new 1'];
  expect(await find({ now, note: { offset: 1 } })).toEqual({ offset: 1, end: 5, lost: 'old 4' });
  expect(await find({ now, rows: [], note: { offset: 5 }, reported: 2 })).toEqual({
    offset: 0,
    end: 5,
    lost: '',
  });
});

test('waits beyond the end of the log only for the last record and the newest row', async () => {
  const rows = Array.from({ length: 1_000 }, (_, offset) => ({ offset, name: `old ${offset}` }));
  const waited: number[] = [];
  const reader = aReader(rows.slice(0, 500).map(({ name }) => name));
  const owned = withMethods(reader, {
    read: async (options) => {
      if (reader.position('t') >= 500) waited.push(reader.position('t'));
      return await reader.read(options);
    },
  });
  const now = Array.from({ length: 500 }, () => '');
  const note = { offset: 1_000, last: { offset: 998, id: 'old 998' } };
  expect(await find({ now, rows, note, owned })).toEqual({ offset: 500, end: 1_000, lost: 'old 998' });
  expect(waited).toEqual([998, 999]);
});

/** Returns a partition whose reads have scripted results for each offset. */
function aReaderThat(answer: (offset: number) => 'nothing' | { record?: number; next: number }) {
  let position = 0;
  return withMethods(aReader(OLD), {
    position: () => position,
    seek: (_, offset) => {
      position = offset;
    },
    read: async () => {
      const batch = answer(position);
      if (batch === 'nothing') return undefined;
      position = batch.next;
      const value = Buffer.from(OLD[batch.record ?? -1] ?? '');
      const record = {
        offset: batch.record ?? -1,
        timestampMs: 0,
        key: null,
        value,
        headers: { [APPEND_ID_HEADER]: String(value) },
      };
      const records = batch.record === undefined ? [] : [record];
      return { topic: 't', partition: 0, records, nextOffset: position };
    },
  });
}

test('does not report a truncation for expired or compacted records, or for a marker', async () => {
  const removed = aReaderThat(() => ({ record: 9, next: 10 }));
  expect(await find({ owned: removed, start: 9, now: Array(10).fill('') })).toBeUndefined();
  const marker = aReaderThat((offset) => ({ next: offset + 1 }));
  expect(await find({ owned: marker })).toBeUndefined();
});

test('waits for a slow record only while the log contains it', async () => {
  let attempts = 0;
  const slow = aReaderThat((offset) => (attempts++ < 3 ? 'nothing' : { record: offset, next: offset + 1 }));
  expect(await find({ owned: slow })).toBeUndefined();
  expect(attempts).toBeGreaterThan(3);
  const gone = aReaderThat((offset) => (offset >= 4 ? 'nothing' : { record: offset, next: offset + 1 }));
  expect(await find({ owned: gone, now: OLD.slice(0, 4) })).toEqual({ offset: 4, end: 5, lost: 'old 4' });
});

test('uses a truncation that a read reports at or below the offset, and rethrows other errors', async () => {
  expect(await find({ now: OLD.slice(0, 3) })).toEqual({ offset: 3, end: 5, lost: 'old 4' });
  const failing = (error: Error) =>
    withMethods(aReader(OLD), {
      read: async () => {
        throw error;
      },
    });
  const cutAt = (offset: number) => new LogTruncated({ topic: 't', partition: 0, offset, position: 9 });
  const bare = { rows: [], note: { offset: 5, last: { offset: 4, id: 'old 4' } } };
  expect(await find({ ...bare, owned: failing(cutAt(4)) })).toMatchObject({ offset: 0, end: 5 });
  await expect(find({ ...bare, owned: failing(cutAt(5)) })).rejects.toBeInstanceOf(LogTruncated);
  await expect(find({ ...bare, owned: failing(new Error('away')) })).rejects.toThrow('away');
  const lost = withMethods(aReader(OLD), { signal: AbortSignal.abort(new Error('lost')) });
  await expect(find({ owned: lost })).rejects.toThrow('lost');
});

test('does not decide about a truncation while the partition has no leader', async () => {
  await expect(offsetRangeOf({ offsetRanges: async () => [undefined] }, 't', 0)).rejects.toBeInstanceOf(
    Unavailable,
  );
});

/** Checks the stored rows of a block that was read again. By default, the block has the records at the offsets 2, 3, and 4. */
async function check(rows: readonly StoredRow[], names = ['old 2', 'old 3', 'old 4']): Promise<void> {
  const records = names.map((name, i) => ({
    ...{ offset: 2 + i, timestampMs: 0, key: null, value: Buffer.from(name), headers: {} },
  }));
  const block = { topic: 't', partition: 0, records, start: 2, end: 5 };
  await checkStoredRows(storedRowsOf(rows), block);
}

const rowsAt = (...offsets: number[]): StoredRow[] =>
  offsets.map((offset) => ({ offset, name: `old ${offset}` }));

test('detects that the log lost records after the search for truncations, by the highest stored row of a block', async () => {
  const lost = { topic: 't', partition: 0, position: 5 };
  await expect(check(rowsAt(2, 3, 4), ['old 2', 'old 3', 'new 4'])).rejects.toMatchObject({
    ...{ name: 'LogTruncated', offset: 4 },
    ...lost,
  });
  await expect(check(rowsAt(2), ['new 2', 'new 3', 'new 4'])).rejects.toMatchObject({ ...lost, offset: 2 });
  await expect(check(rowsAt(2, 3), ['old 2', 'new 3'])).rejects.toMatchObject({ ...lost, offset: 3 });
});

test('accepts a block whose highest stored row belongs to its record, and rows outside the block', async () => {
  await check(rowsAt(2, 3, 4));
  await check(rowsAt(3), ['old 2', 'old 3', 'new 4']);
  await check(rowsAt(1, 5), ['new 2', 'new 3', 'new 4']);
  await check([]);
});

test('accepts a stored row whose record has expired', async () => {
  await check(rowsAt(2, 3, 4), ['old 2', 'old 3']);
});
