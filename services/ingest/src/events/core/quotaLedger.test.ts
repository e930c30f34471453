import fc from 'fast-check';
import { expect, test } from 'vitest';
import { QuotaLedger, type RollupRow } from './quotaLedger.ts';

const LOG = 'this-log';

test('counts running appends, so that concurrent requests see each other', () => {
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

test('counts an append once that the rollup had before it was confirmed', () => {
  const ledger = new QuotaLedger(LOG);
  ledger.reserve(4);
  // The rows can be newer than the projected offset, because the offset was read before the rows.
  ledger.refresh([{ logId: LOG, partition: 1, used: 4, lastOffset: 9 }], [0, 9]);
  ledger.confirm(1, 9, 4);
  expect(ledger.used()).toBe(4);
});

test('counts a log that was truncated before the first read', () => {
  const ledger = new QuotaLedger(LOG);
  ledger.truncate(0, 0);
  ledger.reserve(4);
  ledger.confirm(0, 1, 4);
  ledger.refresh([{ logId: LOG, partition: 0, used: 4, lastOffset: 1 }], [2]);
  expect(ledger.used()).toBe(4);
});

test('a truncation above all read offsets removes no unprojected appends', () => {
  const ledger = new QuotaLedger(LOG);
  ledger.refresh([{ logId: LOG, partition: 0, used: 5, lastOffset: 5 }], []);
  ledger.reserve(2);
  ledger.confirm(0, 7, 2);
  ledger.truncate(0, 9);
  ledger.refresh([{ logId: LOG, partition: 0, used: 6, lastOffset: 6 }], []);
  expect(ledger.used()).toBe(8);
});

test('own appends take bounded memory while ClickHouse is unavailable, and none is omitted', () => {
  const [appends, maxOwn] = [5_000, 100];
  const ledger = new QuotaLedger(LOG, maxOwn);
  for (let offset = 0; offset < appends; offset++) {
    ledger.reserve(1);
    ledger.confirm(0, offset, 1);
  }
  const used = new Set<number>();
  for (let covered = 0; covered <= appends; covered++) {
    ledger.refresh([], [covered]);
    used.add(ledger.used());
    const twice = ledger.used() - (appends - covered);
    expect(twice).toBeGreaterThanOrEqual(0);
    expect(twice).toBeLessThanOrEqual((4 * appends) / maxOwn);
  }
  expect(used.size).toBeLessThanOrEqual(maxOwn + 1);
  expect(ledger.used()).toBe(0);
});

test.each([
  [10_000, 0, false],
  [10_000, 8_000, false],
  [10_000, 8_001, true],
  [10_000, 9_999, true],
  [10_000, 10_000, false],
  [100_000, 95_000, false],
  [100_000, 95_001, true],
])('of a quota of %i, a use of %i is near the quota: %s', (quota, used, isNear) => {
  const ledger = new QuotaLedger(LOG);
  ledger.reserve(used);
  expect(ledger.isNearQuota(quota)).toBe(isNear);
});

test('equals the log at rest, for any order of appends, retries, and reads of the rollup', () => {
  const appended = { partition: fc.nat(2), events: fc.integer({ min: 1, max: 500 }) };
  const step = fc.oneof(
    fc.record({ kind: fc.constant('append' as const), ...appended }),
    // Consumers drop the append of a retry. The ledger counts the append until its offset is projected.
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

test('equals the log and the stored rows at rest, also if the projector detects a truncation late', () => {
  const step = fc.oneof(
    fc.record({ kind: fc.constant('append' as const), events: fc.integer({ min: 1, max: 500 }) }),
    fc.record({ kind: fc.constant('project' as const), records: fc.nat(3) }),
    fc.record({ kind: fc.constant('cut' as const), records: fc.integer({ min: 1, max: 5 }) }),
    fc.constant({ kind: 'refresh' as const }),
  );
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
      const ledger = new QuotaLedger(LOG);
      const log: number[] = [];
      let projected = { end: 0, used: 0 };
      let orphans = 0;
      /** Offset of a truncation that the projector has not detected yet. */
      let cutAt = Infinity;
      const sum = (events: readonly number[]) => events.reduce((total, one) => total + one, 0);
      const refresh = (): void =>
        ledger.refresh(
          [
            { logId: LOG, partition: 0, used: projected.used, lastOffset: projected.end - 1 },
            { logId: 'the cut', partition: 0, used: orphans, lastOffset: 1_000_000 },
          ],
          [projected.end],
        );
      for (const one of steps) {
        if (one.kind === 'append') {
          ledger.reserve(one.events);
          ledger.confirm(0, log.push(one.events) - 1, one.events);
        } else if (one.kind === 'cut') {
          const offset = Math.max(0, log.length - one.records);
          // Reads the rollup before the truncation, so that the rows belong to the log before the truncation.
          refresh();
          if (offset < projected.end) cutAt = Math.min(cutAt, offset);
          log.length = offset;
          ledger.truncate(0, offset);
        } else if (one.kind === 'refresh') {
          refresh();
        } else {
          if (cutAt < projected.end) {
            const kept = sum(log.slice(0, cutAt));
            orphans += projected.used - kept;
            projected = { end: cutAt, used: kept };
            cutAt = Infinity;
          }
          const end = Math.max(projected.end, Math.min(log.length, projected.end + one.records));
          projected = { end, used: sum(log.slice(0, end)) };
        }
      }
      refresh();
      const unprojected = log.slice(Math.min(cutAt, projected.end));
      expect(ledger.used()).toBe(projected.used + orphans + sum(unprojected));
    }),
    {
      numRuns: 1_000,
      examples: [
        [
          [
            { kind: 'append', events: 1 },
            { kind: 'project', records: 1 },
            { kind: 'cut', records: 1 },
            { kind: 'append', events: 1 },
            { kind: 'project', records: 1 },
          ],
        ],
        [
          [
            { kind: 'append', events: 1 },
            { kind: 'append', events: 1 },
            { kind: 'project', records: 2 },
            { kind: 'cut', records: 1 },
            { kind: 'cut', records: 1 },
            { kind: 'append', events: 1 },
          ],
        ],
      ],
    },
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
