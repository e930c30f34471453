import fc from 'fast-check';
import { expect, test } from 'vitest';
import { Rollup } from './rollup.ts';

test('records applied again change nothing, wherever a run begins anew', () => {
  const records = fc.array(
    fc.record({ key: fc.constantFrom('a', 'b'), events: fc.integer({ min: 1, max: 9 }) }),
    { maxLength: 30 },
  );
  fc.assert(
    fc.property(records, fc.array(fc.nat(30)), (log, restarts) => {
      const table = new Map<string, { count: number; lastOffset: number }>();
      for (const from of [...restarts.map((at) => Math.min(at, log.length)), 0]) {
        // A restart may begin at or below what the table already holds, never beyond it: offsets are committed last.
        const reached = Math.max(-1, ...[...table.values()].map(({ lastOffset }) => lastOffset));
        const rollup = new Rollup<string>((key) => key);
        for (const key of ['a', 'b']) rollup.load(key, table.get(key));
        log.forEach(({ key, events }, offset) => {
          if (offset >= Math.min(from, reached + 1)) rollup.add(key, offset, events);
        });
        for (const { key, count, lastOffset } of rollup.drain()) table.set(key, { count, lastOffset });
      }
      for (const key of ['a', 'b']) {
        const truth = log.filter((record) => record.key === key).reduce((sum, { events }) => sum + events, 0);
        expect(table.get(key)?.count ?? 0).toBe(truth);
      }
    }),
  );
});

test('a count that was never loaded is a bug, not a zero', () => {
  expect(() => new Rollup<string>((key) => key).add('a', 0, 1)).toThrow(/not loaded/);
});
