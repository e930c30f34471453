import fc from 'fast-check';
import { expect, test } from 'vitest';
import { QuotaLedger, type RollupRow } from './quotaLedger.ts';

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
  ledger.refresh([{ logId: 'older', partition: 0, used: 7, lastOffset: 1_000_000 }], []);
  ledger.reserve(2);
  ledger.confirm(0, 5, 2);
  expect(ledger.used()).toBe(9);
});

test('an append that the rollup had before it was confirmed is counted once', () => {
  const ledger = new QuotaLedger(LOG);
  ledger.reserve(4);
  // What was known to be projected before the rows were read may lie behind them.
  ledger.refresh([{ logId: LOG, partition: 1, used: 4, lastOffset: 9 }], [0, 9]);
  ledger.confirm(1, 9, 4);
  expect(ledger.used()).toBe(4);
});

test.each([
  [10_000, 0, false],
  [10_000, 8_000, false],
  [10_000, 8_001, true],
  [10_000, 9_999, true],
  [10_000, 10_000, false],
  [100_000, 95_000, false],
  [100_000, 95_001, true],
])('of a quota of %i, %i used is near its line: %s', (quota, used, isNear) => {
  const ledger = new QuotaLedger(LOG);
  ledger.reserve(used);
  expect(ledger.isNearLine(quota)).toBe(isNear);
});

test('at rest, equals what is in the log, however appends, repeats and readings of the rollup interleave', () => {
  const appended = { partition: fc.nat(2), events: fc.integer({ min: 1, max: 500 }) };
  const step = fc.oneof(
    fc.record({ kind: fc.constant('append' as const), ...appended }),
    // Consumers drop it: it counts until it is known to be projected.
    fc.record({ kind: fc.constant('repeat' as const), ...appended }),
    fc.record({ kind: fc.constant('project' as const), partition: fc.nat(2), records: fc.nat(3) }),
    fc.constant({ kind: 'refresh' as const }),
  );
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
      const ledger = new QuotaLedger(LOG);
      const log: { events: number; isRepeat: boolean }[][] = [[], [], []];
      const projected = [0, 0, 0];
      let known = [0, 0, 0];
      const expected = (): number =>
        log
          .flatMap((records, partition) =>
            records.filter(({ isRepeat }, offset) => !isRepeat || offset >= (known[partition] ?? 0)),
          )
          .reduce((sum, { events }) => sum + events, 0);
      for (const one of steps) {
        if (one.kind === 'append' || one.kind === 'repeat') {
          expect(ledger.reserve(one.events)).toBe(expected());
          const records = log[one.partition] ?? [];
          const offset = records.push({ events: one.events, isRepeat: one.kind === 'repeat' }) - 1;
          ledger.confirm(one.partition, offset, one.events);
        } else if (one.kind === 'project') {
          const there = log[one.partition]?.length ?? 0;
          projected[one.partition] = Math.min(there, (projected[one.partition] ?? 0) + one.records);
        } else {
          known = [...projected];
          ledger.refresh(rollupOf(log, projected), projected);
        }
        expect(ledger.used()).toBe(expected());
      }
    }),
  );
});

function rollupOf(
  log: readonly (readonly { events: number; isRepeat: boolean }[])[],
  projected: readonly number[],
): RollupRow[] {
  return log.flatMap((records, partition) => {
    const there = records.slice(0, projected[partition]);
    const lastOffset = there.findLastIndex(({ isRepeat }) => !isRepeat);
    const used = there.reduce((sum, { events, isRepeat }) => sum + (isRepeat ? 0 : events), 0);
    return lastOffset === -1 ? [] : [{ logId: LOG, partition, used, lastOffset }];
  });
}
