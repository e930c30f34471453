import fc from 'fast-check';
import { expect, test } from 'vitest';
import { QuotaLedger } from './quotaLedger.ts';

const LOG = 'this-log';

test('counts what is being appended, so that concurrent requests see each other', () => {
  const ledger = new QuotaLedger(LOG);
  expect(ledger.reserve(5)).toBe(0);
  expect(ledger.reserve(3)).toBe(5);
  ledger.release(5);
  expect(ledger.used()).toBe(3);
});

test('counts the rows of an older log, whatever their offsets', () => {
  const ledger = new QuotaLedger(LOG);
  ledger.refresh([{ logId: 'older', partition: 0, used: 7, lastOffset: 1_000_000 }]);
  ledger.reserve(2);
  ledger.confirm(0, 5, 2);
  expect(ledger.used()).toBe(9);
});

test('an append that the rollup had before it was confirmed is counted once', () => {
  const ledger = new QuotaLedger(LOG);
  ledger.reserve(4);
  ledger.refresh([{ logId: LOG, partition: 1, used: 4, lastOffset: 9 }]);
  ledger.confirm(1, 9, 4);
  expect(ledger.used()).toBe(4);
});

test('at rest, equals what is in the log, however appends and readings of the rollup interleave', () => {
  const step = fc.oneof(
    fc.record({
      kind: fc.constant('append' as const),
      partition: fc.nat(2),
      events: fc.integer({ min: 1, max: 500 }),
    }),
    fc.record({ kind: fc.constant('project' as const), partition: fc.nat(2), records: fc.nat(3) }),
    fc.constant({ kind: 'refresh' as const }),
  );
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
      const ledger = new QuotaLedger(LOG);
      const log: number[][] = [[], [], []];
      const projected = [0, 0, 0];
      let total = 0;
      for (const one of steps) {
        if (one.kind === 'append') {
          expect(ledger.reserve(one.events)).toBe(total);
          const records = log[one.partition] ?? [];
          ledger.confirm(one.partition, records.push(one.events) - 1, one.events);
          total += one.events;
        } else if (one.kind === 'project') {
          const there = log[one.partition]?.length ?? 0;
          projected[one.partition] = Math.min(there, (projected[one.partition] ?? 0) + one.records);
        } else {
          ledger.refresh(
            projected.flatMap((end, partition) => {
              const used = (log[partition] ?? []).slice(0, end).reduce((sum, events) => sum + events, 0);
              return end === 0 ? [] : [{ logId: LOG, partition, used, lastOffset: end - 1 }];
            }),
          );
        }
        expect(ledger.used()).toBe(total);
      }
    }),
  );
});
