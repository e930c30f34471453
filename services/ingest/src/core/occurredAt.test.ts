import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { formatMicros, parseOccurredAt } from './occurredAt.ts';

describe('parseOccurredAt', () => {
  test.each([
    ['1970-01-01T00:00:00Z', 0n],
    ['2025-06-15T15:07:41Z', 1_750_000_061_000_000n],
    ['2025-06-15T15:07:41.123Z', 1_750_000_061_123_000n],
    ['2025-06-15T15:07:41.123456Z', 1_750_000_061_123_456n],
    ['2025-06-15T15:07:41', 1_750_000_061_000_000n],
    ['2025-06-15T15:07:41.5', 1_750_000_061_500_000n],
    ['2025-06-15T15:07Z', 1_750_000_020_000_000n],
    ['2025-06-15T15:07', 1_750_000_020_000_000n],
    ['2025-06-15T15:07+02:00', 1_749_992_820_000_000n],
    ['2025-06-15', 1_749_945_600_000_000n],
  ])('reads %s', (text, micros) => {
    expect(parseOccurredAt(text)).toEqual({ ok: true, micros });
  });

  test.each([
    ['a small t', '2025-06-15t15:07:41Z'],
    ['a space', '2025-06-15 15:07:41Z'],
    ['a small z', '2025-06-15T15:07:41z'],
    ['no offset', '2025-06-15T15:07:41'],
    ['an offset of zero', '2025-06-15T15:07:41+00:00'],
    ['an unknown offset', '2025-06-15T15:07:41-00:00'],
    ['an offset to the east', '2025-06-15T17:07:41+02:00'],
    ['an offset to the west', '2025-06-15T07:37:41-07:30'],
    ['an offset without its colon', '2025-06-15T17:07:41+0200'],
    ['an offset of hours', '2025-06-15T17:07:41+02'],
    ['an offset into another day', '2025-06-16T15:06:41+23:59'],
    ['the offset farthest to the west', '2025-06-14T15:08:41-23:59'],
    ['decimals of zero', '2025-06-15T15:07:41.000000000Z'],
    ['decimals behind a comma', '2025-06-15T15:07:41,0Z'],
    ['decimals that end before an offset', '2025-06-15T17:07:41.0+02'],
  ])('takes %s for the same moment', (_, text) => {
    expect(parseOccurredAt(text)).toEqual({ ok: true, micros: 1_750_000_061_000_000n });
  });

  test.each([
    ['1', 100_000n],
    ['12', 120_000n],
    ['000001', 1n],
    ['0000019', 1n],
    ['999999', 999_999n],
    ['9999999', 999_999n],
    ['1234567890123', 123_456n],
    ['9'.repeat(100_000), 999_999n],
  ])('keeps decimals to the microsecond and cuts off the rest: .%s', (decimals, micros) => {
    expect(parseOccurredAt(`1970-01-01T00:00:00.${decimals}Z`)).toEqual({ ok: true, micros });
    expect(parseOccurredAt(`1970-01-01T00:00:00,${decimals}Z`)).toEqual({ ok: true, micros });
  });

  test('cuts off towards the past before 1970 too', () => {
    expect(parseOccurredAt('1969-12-31T23:59:59.9999999Z')).toEqual({ ok: true, micros: -1n });
    expect(parseOccurredAt('1969-12-31T23:59:59.0000009Z')).toEqual({ ok: true, micros: -1_000_000n });
  });

  test.each(['2024-02-29', '2000-02-29', '2025-01-31', '2025-04-30', '2025-12-31', '1904-02-29'])(
    'knows that %s is a day',
    (text) => {
      expect(parseOccurredAt(text)).toEqual({ ok: true, micros: BigInt(Date.parse(text)) * 1000n });
    },
  );

  test.each([
    '2025-02-29',
    '1900-02-29',
    '2100-02-29',
    '2024-02-30',
    '2025-04-31',
    '2025-06-31',
    '2025-09-31',
  ])('knows that %s is no day', (text) => {
    expect(parseOccurredAt(text)).toEqual({ ok: false, reason: 'format' });
  });

  test.each([
    '2025-12-31T24:00:00Z',
    '2025-12-31T24:00Z',
    '2025-12-31T24:00:00.000Z',
    '2026-01-01T01:00:00+01:00',
  ])('takes %s for the midnight that follows', (text) => {
    expect(parseOccurredAt(text)).toEqual(parseOccurredAt('2026-01-01'));
  });

  test.each([
    '2016-12-31T23:59:60Z',
    '2016-12-31T23:59:60.999999Z',
    '2016-12-31T15:59:60-08:00',
    '2017-01-01T05:29:60.5+0530',
  ])('takes the leap second %s for the start of the second that follows', (text) => {
    expect(parseOccurredAt(text)).toEqual(parseOccurredAt('2017-01-01'));
  });

  test.each([
    '2016-12-31T23:58:60Z',
    '2016-12-31T22:59:60Z',
    '2016-12-31T00:00:60Z',
    '2016-12-31T23:59:60+01:00',
    '2016-12-31T23:59:61Z',
    '2016-12-31T24:00:60Z',
  ])('knows that %s is no leap second', (text) => {
    expect(parseOccurredAt(text)).toEqual({ ok: false, reason: 'format' });
  });

  test.each([
    ['1900-01-01', true],
    ['1900-01-01T00:00:00.000000Z', true],
    ['1899-12-31T23:59:59.999999Z', false],
    ['1899-12-31T23:59:59.99999999Z', false],
    ['1900-01-01T00:59:59+01:00', false],
    ['1899-12-31T23:00:00-01:00', true],
    ['2299-12-31T23:59:59.999999Z', true],
    ['2299-12-31T23:59:59.9999999Z', true],
    ['2300-01-01', false],
    ['2299-12-31T24:00:00Z', false],
    ['2299-12-31T23:59:60Z', false],
    ['2300-01-01T00:59:59+01:00', true],
    ['2299-12-31T23:00:00-01:00', false],
    ['0000-01-01', false],
    ['0001-01-01T00:00:00+23:59', false],
    ['9999-12-31T23:59:59Z', false],
  ])('%s: in range %s', (text, isInRange) => {
    const result = parseOccurredAt(text);
    expect(result.ok).toBe(isInRange);
    if (!result.ok) expect(result.reason).toBe('range');
  });

  test.each([
    '',
    'now',
    '1750000061',
    '2025',
    '2025-06',
    '2025-6-15',
    '25-06-15',
    '20250615',
    '20250615T150741Z',
    '2025-166',
    '2025-W24-7',
    '+002025-06-15T15:07:41Z',
    '-2025-06-15',
    '2025-00-15',
    '2025-13-15',
    '2025-06-00',
    '2025-06-32',
    '2025/06/15',
    '15.06.2025',
    '2025-06-15Z',
    '2025-06-15+02:00',
    '2025-06-15T',
    '2025-06-15T15',
    '2025-06-15T15Z',
    '2025-06-15T15:',
    '2025-06-15T15:7',
    '2025-06-15T1507',
    '2025-06-15T15:07:',
    '2025-06-15T15:07:4',
    '2025-06-15T15:07:4Z',
    '2025-06-15T15:07.5Z',
    '2025-06-15T15-07-41Z',
    '2025-06-15T25:00:00Z',
    '2025-06-15T24:00:01Z',
    '2025-06-15T24:01:00Z',
    '2025-06-15T24:00:00.0000001Z',
    '2025-06-15T15:60:00Z',
    '2025-06-15T15:07:61Z',
    '2025-06-15T15:07:41.',
    '2025-06-15T15:07:41.Z',
    '2025-06-15T15:07:41.+02:00',
    '2025-06-15T15:07:41..5Z',
    '2025-06-15T15:07:41.5.5Z',
    '2025-06-15T15:07:41.5xZ',
    '2025-06-15T15:07:41 Z',
    '2025-06-15T15:07:41ZZ',
    '2025-06-15T15:07:41Z+01:00',
    '2025-06-15T15:07:41+',
    '2025-06-15T15:07:41+2',
    '2025-06-15T15:07:41+2:00',
    '2025-06-15T15:07:41+020',
    '2025-06-15T15:07:41+02:0',
    '2025-06-15T15:07:41+02:000',
    '2025-06-15T15:07:41+02-00',
    '2025-06-15T15:07:41+24:00',
    '2025-06-15T15:07:41+02:60',
    '2025-06-15T15:07:41\u221202:00',
    '2025-06-15T15:07:41GMT',
    ' 2025-06-15T15:07:41Z',
    '2025-06-15T15:07:41Z ',
    '2025-06-15T15:07:41Z\n',
    '2025-06-15  15:07:41Z',
    '2025-06-15_15:07:41Z',
    '２０２５-06-15',
    '2025-06-15T15:07:41.\u0661Z',
    '2025-06-1e',
    '2025-+6-15',
    '2025-06-15T-1:00:00Z',
    'Sun, 15 Jun 2025 15:07:41 GMT',
  ])('refuses %j', (text) => {
    expect(parseOccurredAt(text)).toEqual({ ok: false, reason: 'format' });
  });
});

describe('formatMicros', () => {
  test.each([
    [0n, '1970-01-01T00:00:00.000Z'],
    [1n, '1970-01-01T00:00:00.000001Z'],
    [-1n, '1969-12-31T23:59:59.999999Z'],
    [-1000n, '1969-12-31T23:59:59.999Z'],
    [1_750_000_061_120_000n, '2025-06-15T15:07:41.120Z'],
    [1_750_000_061_120_030n, '2025-06-15T15:07:41.120030Z'],
    [951_782_400_000_000n, '2000-02-29T00:00:00.000Z'],
    [-2_208_988_800_000_000n, '1900-01-01T00:00:00.000Z'],
    [10_413_791_999_999_999n, '2299-12-31T23:59:59.999999Z'],
    [-62_167_219_200_000_000n, '0000-01-01T00:00:00.000Z'],
    [253_402_300_799_999_999n, '9999-12-31T23:59:59.999999Z'],
  ])('writes %s as %s', (micros, text) => {
    expect(formatMicros(micros)).toBe(text);
  });
});

describe('against the engine’s calendar', () => {
  const FIRST = -2_208_988_800_000_000n;
  const LAST = 10_413_791_999_999_999n;
  /** Above 2^53 microseconds, in 2255, a number is no longer exact. */
  const micros = fc.oneof(
    fc.bigInt({ min: FIRST, max: LAST }),
    fc.bigInt({ min: 2n ** 53n - 5_000_000n, max: 2n ** 53n + 5_000_000n }),
    fc.bigInt({ min: -5_000_000n, max: 5_000_000n }),
    fc
      .bigInt({ min: FIRST / 1_000_000n, max: LAST / 1_000_000n })
      .map((second) => second * 1_000_000n + 999_999n),
  );

  test('writes every moment as the engine does, with three digits more where there are any', () => {
    fc.assert(
      fc.property(micros, (moment) => {
        expect(formatMicros(moment)).toBe(expectedText(moment));
      }),
      { numRuns: 5000 },
    );
  });

  test('reads every moment, at every offset and precision', () => {
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

  test('accepts of any date and time just those that the engine’s calendar has', () => {
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
