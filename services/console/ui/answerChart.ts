/** Converts a result of ClickHouse into a chart over time. */

/** A query result of ClickHouse. All values are texts, so that large numbers are not rounded. */
export interface Answer {
  readonly meta: readonly { name: string; type: string }[];
  readonly data: readonly (readonly (string | null)[])[];
}

/**
 * Returns a chart over time. An answer with the columns time, category, and number has one line for each of the four categories
 * with the largest sums. Other answers have one line per number column.
 * @returns a message if two values of a line have the same time, or undefined if the answer has no time or no number
 */
export function chartOf({ meta, data }: Answer) {
  const type = meta[0]?.type ?? '';
  const numbers = meta.flatMap(({ type }, i) => (isNumeric(type) ? [i] : []));
  if (!IS_TIME.test(type) || numbers.length === 0) return undefined;
  const hasCategories = meta.length === 3 && numbers[0] === 2;
  const lines = new Map<string | number, Map<number, number>>();
  for (const row of data) {
    const time = secondsOf(row[0] ?? '', type);
    if (Number.isNaN(time)) continue;
    for (const i of numbers) {
      const key = hasCategories ? categoryOf(row[1]) : i;
      const line = lines.get(key) ?? new Map<number, number>();
      lines.set(key, line);
      if (line.has(time)) return 'No chart: several rows have the same time.';
      line.set(time, isNull(row[i]) ? Number.NaN : Number(row[i]));
    }
  }
  const shown = hasCategories ? largest(lines) : [...lines];
  const known = new Set(shown.flatMap(([, line]) => [...line.keys()]));
  if (known.size === 0) return undefined;
  const times = withGaps([...known].sort((a, b) => a - b));
  const drawn = (value = Number.NaN) => (Number.isNaN(value) ? null : value);
  return {
    times,
    series: shown.map(([key, line]) => ({
      name: typeof key === 'number' ? (meta[key]?.name ?? '') : key,
      values: times.map((time) => drawn(line.get(time))),
    })),
    hiddenLines: lines.size - shown.length,
  };
}

/**
 * Returns one bar per row, at most 30 bars, for an answer with the columns category and number.
 * @returns undefined for other answers, and for negative numbers
 */
export function barsOf({ meta, data }: Answer) {
  const [category, number] = meta;
  if (meta.length !== 2 || !category || !number || isNumeric(category.type) || !isNumeric(number.type)) {
    return undefined;
  }
  const bars = data
    .slice(0, MAX_BARS)
    .map(([name, value]) => ({ name: categoryOf(name), value: Number(value) }));
  return bars.every(({ value }) => value >= 0) ? bars : undefined;
}

/** Returns midnight of a day in the time zone of the browser, so that the axis of the chart shows the right day. */
export function localMidnight(day: string): number {
  return new Date(`${day}T00:00:00`).getTime() / 1000;
}

/** Returns true for NULL, which ClickHouse writes as `ᴺᵁᴸᴸ` in this output format. */
export function isNull(value: string | null | undefined): boolean {
  return value === null || value === undefined || value === 'ᴺᵁᴸᴸ';
}

export function isNumeric(type: string): boolean {
  return /^(Nullable\()?(U?Int|Float|Decimal)/.test(type);
}

/** The chart has four colors. */
const MAX_CATEGORIES = 4;
const MAX_BARS = 30;

function categoryOf(text: string | null | undefined): string {
  return isNull(text) ? '–' : String(text);
}

function largest(lines: ReadonlyMap<string | number, ReadonlyMap<number, number>>) {
  const sumOf = (line: ReadonlyMap<number, number>) =>
    [...line.values()].reduce((sum, value) => sum + (value || 0), 0);
  return [...lines].sort(([, a], [, b]) => sumOf(b) - sumOf(a)).slice(0, MAX_CATEGORIES);
}

const IS_TIME = /^(LowCardinality\()?(Nullable\()?Date/;

function secondsOf(text: string, type: string): number {
  if (!text.includes(':')) return localMidnight(text);
  const zone = /'(.+)'/.exec(type)?.[1] ?? 'UTC';
  const utc = secondsOfUtc(text);
  // Computes the time zone offset from an estimated UTC time, and then corrects the estimate.
  return utc - offsetOf(zone, utc - offsetOf(zone, utc));
}

function secondsOfUtc(text: string): number {
  return Date.parse(`${text.replace(' ', 'T')}Z`) / 1000;
}

/** Returns the offset of a time zone in seconds, or NaN if the browser does not know the time zone. */
function offsetOf(zone: string, seconds: number): number {
  if (zone === 'UTC') return 0;
  const whole = Math.floor(seconds);
  try {
    return secondsOfUtc(new Date(whole * 1000).toLocaleString('sv', { timeZone: zone })) - whole;
  } catch {
    return Number.NaN;
  }
}

/** Adds a time without a value wherever the times have a gap, so that the chart draws no line across the gap. */
function withGaps(times: readonly number[]): readonly number[] {
  const steps = times.slice(1).map((time, i) => time - (times[i] ?? time));
  const step = Math.min(...steps);
  const isGap = (seconds: number) => seconds > 1.5 * step;
  if (steps.filter(isGap).length * 2 > steps.length) return times;
  return times.flatMap((time, i) => (isGap(steps[i] ?? 0) ? [time, time + step] : [time]));
}
