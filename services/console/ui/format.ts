/** Formats numbers, times, and error messages for the console. */

const MINUTE = 60;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
/** Units of ages. An age is shown in the first unit whose `below` (in seconds) is greater than the age. */
const AGES = [
  { unit: 's', seconds: 1, below: MINUTE },
  { unit: 'min', seconds: MINUTE, below: HOUR },
  { unit: 'h', seconds: HOUR, below: 2 * DAY },
  { unit: 'days', seconds: DAY, below: 60 * DAY },
  { unit: 'months', seconds: 30.4 * DAY, below: 730 * DAY },
  { unit: 'years', seconds: 365.25 * DAY, below: Number.POSITIVE_INFINITY },
];
/** Ages below this limit are shown as `just now`, because the clocks of two machines can differ by a few seconds. */
const JUST_NOW_SECONDS = 5;

export function count(n: number): string {
  return n.toLocaleString();
}

/** Formats a number of bytes, for example `3.5 MiB`. */
export function bytes(n: number): string {
  if (n < 1024) return `${count(n)} B`;
  if (n < 1024 ** 2) return `${count(Math.round(n / 1024))} KiB`;
  return n < 1024 ** 3 ? `${(n / 1024 ** 2).toFixed(1)} MiB` : `${(n / 1024 ** 3).toFixed(1)} GiB`;
}

/** Formats a time relative to now, for example `3 min ago`, `in 2 h`, or `just now`. */
export function relativeTime(atMs: number, nowMs: number): string {
  const seconds = Math.abs(nowMs - atMs) / 1000;
  if (seconds < JUST_NOW_SECONDS) return 'just now';
  const age = AGES.find(({ below }) => seconds < below) ?? { unit: 's', seconds: 1 };
  const text = `${Math.floor(seconds / age.seconds)} ${age.unit}`;
  return atMs > nowMs ? `in ${text}` : `${text} ago`;
}

/** Formats a time in the language and the time zone of the browser, for example `Nov 28, 2026, 5:41:35 AM UTC`. */
export function absoluteTime(at: Date): string {
  return at.toLocaleString(undefined, {
    ...{ year: 'numeric', month: 'short', day: 'numeric' },
    ...{ hour: 'numeric', minute: '2-digit', second: '2-digit', timeZoneName: 'short' },
  });
}

export function clockTime(at: Date): string {
  return at.toLocaleTimeString(undefined, { hour: 'numeric', minute: '2-digit', second: '2-digit' });
}

export function zoneName(at: Date): string {
  const parts = new Intl.DateTimeFormat(undefined, { timeZoneName: 'short' }).formatToParts(at);
  return parts.find(({ type }) => type === 'timeZoneName')?.value ?? '';
}

export function dayName(at: Date): string {
  return at.toLocaleDateString(undefined, { year: 'numeric', month: 'short', day: 'numeric' });
}

/** Formats the numbers of an axis as short labels. Different numbers always get different labels. */
export function axisNumbers(values: readonly number[]): string[] {
  const largest = Math.max(...values.map(Math.abs));
  const isShort = largest < 10_000;
  const notation = isShort ? 'standard' : largest < 1e15 ? 'compact' : 'scientific';
  return values.map((n) => n.toLocaleString(undefined, { notation, maximumFractionDigits: 6 }));
}

/** Formats times of an axis, for example `5:41 AM`, with seconds for steps below a minute. Shows midnight as `Nov 28`. */
export function axisTimes(seconds: readonly number[], stepSeconds: number): string[] {
  return seconds.map((second) => {
    if (stepSeconds < 1 && !Number.isInteger(second)) return '';
    const at = new Date(second * 1000);
    if (stepSeconds >= 28 * DAY) return at.toLocaleDateString(undefined, { year: 'numeric', month: 'short' });
    const isMidnight = at.getHours() + at.getMinutes() + at.getSeconds() === 0;
    if (stepSeconds >= DAY || isMidnight)
      return at.toLocaleDateString(undefined, { month: 'short', day: 'numeric' });
    return stepSeconds < MINUTE
      ? clockTime(at)
      : at.toLocaleTimeString(undefined, { hour: 'numeric', minute: '2-digit' });
  });
}

export function lonePoints(values: ArrayLike<number | null | undefined>): number[] {
  return Array.from(values).flatMap((value, i) =>
    value != null && values[i - 1] == null && values[i + 1] == null ? [i] : [],
  );
}

export interface LabelledField {
  /** Path of the field in the API, for example `reportWindow/beforeMs`. */
  readonly name: string;
  readonly label: string;
  /** Number of API units in one form unit, for example 1,000 if the form shows seconds and the API uses milliseconds. */
  readonly scale?: number;
}

/** In an API error message, replaces field names with form labels, and API units with form units. */
export function problemInWords(detail: string, fields: readonly LabelledField[]): string {
  return fields.reduce((text, { name, label, scale = 1 }) => {
    const apiName = name.replaceAll('/', '.');
    const at = indexOfName(text, apiName);
    if (at === -1) return text;
    const [rest = '', ...others] = text.slice(at + apiName.length).split(';');
    const scaled = scale === 1 ? rest : rest.replaceAll(/\d+/g, (n) => String(Number(n) / scale));
    const words = scaled
      .replace('must not have fewer than 1 characters', 'must not be empty')
      .replace(/must be <= (\d+)/, (_, n) => `must be at most ${count(Number(n))}`)
      .replace(/must be >= (\d+)/, (_, n) => `must be at least ${count(Number(n))}`);
    return [`${text.slice(0, at)}“${label}”${words}`, ...others].join(';');
  }, detail);
}

function indexOfName(text: string, name: string): number {
  const isPartOfName = (character = ''): boolean => /[\w.]/.test(character);
  for (let at = text.indexOf(name); at !== -1; at = text.indexOf(name, at + 1)) {
    if (!isPartOfName(text[at - 1]) && !isPartOfName(text[at + name.length])) return at;
  }
  return -1;
}
