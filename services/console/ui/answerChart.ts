/** An answer of ClickHouse as a chart over time. */

/** Every value as text, so that no number is rounded on its way. */
export interface Answer {
  readonly meta: readonly { name: string; type: string }[];
  readonly data: readonly (readonly (string | null)[])[];
}

/** Where the first column is a time and another a number; or why a chart would mislead. */
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
  if (byTime.size < rows.length) return 'No chart: a time has several rows.';
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

/** A day under its own name on an axis of local time; in seconds. */
export function localMidnight(day: string): number {
  return new Date(`${day}T00:00:00`).getTime() / 1000;
}

/** As the format writes it. */
export function isNull(value: string | null | undefined): boolean {
  return value === null || value === undefined || value === 'ᴺᵁᴸᴸ';
}

export function isNumeric(type: string): boolean {
  return /^(Nullable\()?(U?Int|Float|Decimal)/.test(type);
}

const IS_TIME = /^(LowCardinality\()?(Nullable\()?Date/;

/** In UTC where the type names no other zone. */
function secondsOf(text: string, type: string): number {
  if (!text.includes(':')) return localMidnight(text);
  const zone = /'(.+)'/.exec(type)?.[1] ?? 'UTC';
  const utc = secondsOfUtc(text);
  // A second time by what the zone had then: its offset may change in between.
  return utc - offsetOf(zone, utc - offsetOf(zone, utc));
}

function secondsOfUtc(text: string): number {
  return Date.parse(`${text.replace(' ', 'T')}Z`) / 1000;
}

/** In seconds; NaN for a zone that the browser does not know. */
function offsetOf(zone: string, seconds: number): number {
  if (zone === 'UTC') return 0;
  const whole = Math.floor(seconds);
  try {
    // Sweden writes as ClickHouse does.
    return secondsOfUtc(new Date(whole * 1000).toLocaleString('sv', { timeZone: zone })) - whole;
  } catch {
    return Number.NaN;
  }
}

/** Where most times are one step apart, as days are, one more stands in each gap: a line over it would tell of what is not there. */
function withGaps(times: readonly number[]): readonly number[] {
  const steps = times.slice(1).map((time, i) => time - (times[i] ?? time));
  const step = Math.min(...steps);
  const isGap = (seconds: number) => seconds > 1.5 * step;
  if (steps.filter(isGap).length * 2 > steps.length) return times;
  return times.flatMap((time, i) => (isGap(steps[i] ?? 0) ? [time, time + step] : [time]));
}
