/** Converts a result of ClickHouse into a chart over time. */

/** A result with all values as text, so that numbers are not rounded. */
export interface Answer {
  readonly meta: readonly { name: string; type: string }[];
  readonly data: readonly (readonly (string | null)[])[];
}

/** Returns a chart if the first column is a time and another is a number. Returns a text if a chart would be misleading. */
export function chartOf({ meta, data }: Answer) {
  const type = meta[0]?.type ?? '';
  const numbers = meta.flatMap(({ name, type }, i) => (isNumeric(type) ? [{ name, i }] : []));
  if (!IS_TIME.test(type) || numbers.length === 0) return undefined;
  const rows = data
    .map((row) => ({ row, time: secondsOf(row[0] ?? '', type) }))
    .filter(({ time }) => !Number.isNaN(time))
    .sort((a, b) => a.time - b.time);
  if (rows.length === 0) return undefined;
  const byTime = new Map(rows.map(({ time, row }) => [time, row]));
  if (byTime.size < rows.length) return 'No chart: several rows have the same time.';
  const times = withGaps([...byTime.keys()]);
  return {
    times,
    series: numbers.map(({ name, i }) => ({
      name,
      values: times.map((time) => {
        const value = byTime.get(time)?.[i];
        return isNull(value) ? null : Number(value);
      }),
    })),
  };
}

/** Returns midnight of a day in local time, in seconds, so that a local time axis shows the name of this day. */
export function localMidnight(day: string): number {
  return new Date(`${day}T00:00:00`).getTime() / 1000;
}

/** Detects NULL, which the format writes as `ᴺᵁᴸᴸ`. */
export function isNull(value: string | null | undefined): boolean {
  return value === null || value === undefined || value === 'ᴺᵁᴸᴸ';
}

export function isNumeric(type: string): boolean {
  return /^(Nullable\()?(U?Int|Float|Decimal)/.test(type);
}

const IS_TIME = /^(LowCardinality\()?(Nullable\()?Date/;

/** Parses a time. The time is in UTC if the type names no zone. */
function secondsOf(text: string, type: string): number {
  if (!text.includes(':')) return localMidnight(text);
  const zone = /'(.+)'/.exec(type)?.[1] ?? 'UTC';
  const utc = secondsOfUtc(text);
  // Determines the offset twice, because it can change between the two times.
  return utc - offsetOf(zone, utc - offsetOf(zone, utc));
}

function secondsOfUtc(text: string): number {
  return Date.parse(`${text.replace(' ', 'T')}Z`) / 1000;
}

/** Returns the offset of a zone in seconds, or NaN if the browser does not support the zone. */
function offsetOf(zone: string, seconds: number): number {
  if (zone === 'UTC') return 0;
  const whole = Math.floor(seconds);
  try {
    return secondsOfUtc(new Date(whole * 1000).toLocaleString('sv', { timeZone: zone })) - whole;
  } catch {
    return Number.NaN;
  }
}

/** Adds a time in each gap of a regular series, so that the chart does not draw a line over missing values. */
function withGaps(times: readonly number[]): readonly number[] {
  const steps = times.slice(1).map((time, i) => time - (times[i] ?? time));
  const step = Math.min(...steps);
  const isGap = (seconds: number) => seconds > 1.5 * step;
  if (steps.filter(isGap).length * 2 > steps.length) return times;
  return times.flatMap((time, i) => (isGap(steps[i] ?? 0) ? [time, time + step] : [time]));
}
