/** Compares random times with the engine's calendar, which shares no code with the product. */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { formatMicros, parseOccurredAt } from './isoTime.ts';

describe('against the engine’s calendar', () => {
  const FIRST = -2_208_988_800_000_000n;
  const LAST = 10_413_791_999_999_999n;
  /** A double is not exact above 2^53 microseconds, which is a time in 2255. */
  const micros = fc.oneof(
    fc.bigInt({ min: FIRST, max: LAST }),
    fc.bigInt({ min: 2n ** 53n - 5_000_000n, max: 2n ** 53n + 5_000_000n }),
    fc.bigInt({ min: -5_000_000n, max: 5_000_000n }),
    fc
      .bigInt({ min: FIRST / 1_000_000n, max: LAST / 1_000_000n })
      .map((second) => second * 1_000_000n + 999_999n),
  );

  test('formats every moment as the engine does, with three more digits if necessary', () => {
    fc.assert(
      fc.property(micros, (moment) => {
        expect(formatMicros(moment)).toBe(expectedText(moment));
      }),
      { numRuns: 5000 },
    );
  });

  test('parses every moment, at every offset and precision', () => {
    const offset = fc.integer({ min: -1439, max: 1439 });
    fc.assert(
      fc.property(micros, offset, fc.stringMatching(/^[0-9]{0,6}$/), (moment, minutes, more) => {
        const local = expectedText(moment + BigInt(minutes) * 60_000_000n).slice(0, -1);
        const sixDecimals = local.length === 23 ? `${local}000` : local;
        const size = Math.abs(minutes);
        const east = `${minutes < 0 ? '-' : '+'}${pad(Math.floor(size / 60))}:${pad(size % 60)}`;
        expect(parseOccurredAt(`${sixDecimals}${more}${east}`)).toEqual({ ok: true, micros: moment });
      }),
      { numRuns: 5000 },
    );
  });

  test('accepts exactly the dates and times of the engine’s calendar', () => {
    const part = fc.tuple(
      fc.integer({ min: 0, max: 13 }),
      fc.integer({ min: 0, max: 32 }),
      fc.nat({ max: 25 }),
    );
    fc.assert(
      fc.property(
        fc.integer({ min: 1900, max: 2299 }),
        part,
        fc.nat({ max: 61 }),
        (year, [month, day, hour], minute) => {
          const text = `${year}-${pad(month)}-${pad(day)}T${pad(hour)}:${pad(minute)}:00Z`;
          const date = new Date(Date.UTC(year, month - 1, day, hour, minute));
          const exists = date.toISOString() === text.replace('Z', '.000Z');
          if (hour === 24) return;
          expect(parseOccurredAt(text).ok).toBe(exists);
        },
      ),
      { numRuns: 5000 },
    );
  });
});

function expectedText(moment: bigint): string {
  const rest = ((moment % 1000n) + 1000n) % 1000n;
  const text = new Date(Number((moment - rest) / 1000n)).toISOString();
  return rest === 0n ? text : `${text.slice(0, -1)}${String(rest).padStart(3, '0')}Z`;
}

function pad(value: number): string {
  return String(value).padStart(2, '0');
}
