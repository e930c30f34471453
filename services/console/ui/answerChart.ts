/** Converts a result of ClickHouse into a chart over time. */

/** A query result of ClickHouse. All values are texts, so that large numbers are not rounded. */
export interface Answer {
  readonly meta: readonly { name: string; type: string }[];
  readonly data: readonly (readonly (string | null)[])[];
}

/** Returns a chart with one line per number column, or a message if two rows have the same time. */
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
