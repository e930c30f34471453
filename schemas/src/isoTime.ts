/** Converts times between RFC 3339 text and microseconds since 1970. */

export type ParsedOccurredAt =
  | { readonly ok: true; readonly micros: bigint }
  /** `range` means that the year of the time is not between 1900 and 2299. `format` means that the text is not a valid time. */
  | { readonly ok: false; readonly reason: 'format' | 'range' };

export function parseOccurredAt(text: string): ParsedOccurredAt {
  return TIME.read(asciiOf(text), 0, text.length) ? momentAt(TIME.seconds, TIME.micros) : FORMAT;
}

/** Parses times without creating an object for each time. */
export class TimeReader {
  /** Result of `read`: the time in whole seconds since 1970, and the remaining microseconds. */
  seconds = 0;
  micros = 0;

  /**
   * Parses RFC 3339 and related forms of ISO 8601, such as `2026-01-31 12:30+01`. A date without a time means midnight UTC, and
   * a time without a zone is UTC. A leap second (23:59:60 UTC) becomes the start of the next second, because POSIX time has no
   * leap seconds. Returns false if the bytes contain no such time.
   */
  read(bytes: Buffer, start: number, end: number): boolean {
    const day = end - start < 10 ? INVALID : readDay(bytes, start);
    if (day === INVALID) return false;
    this.micros = 0;
    this.seconds = day * 86_400;
    if (end - start === 10) return true;

    const separator = bytes[start + 10];
    if (separator !== UPPER_T && separator !== LOWER_T && separator !== SPACE) return false;
    const hour = twoDigits(bytes, start + 11);
    const minute = twoDigits(bytes, start + 14);
    if (hour > 24 || minute > 59 || bytes[start + 13] !== COLON) return false;

    const hasSeconds = bytes[start + 16] === COLON;
    const second = hasSeconds ? twoDigits(bytes, start + 17) : 0;
    if (second > 60) return false;
    const timeEnd = hasSeconds ? fractionEnd(bytes, start + 19) : start + 16;
    if (timeEnd === INVALID) return false;
    if (hour === 24 && (minute !== 0 || second !== 0 || !areZeros(bytes, start + 20, timeEnd))) return false;

    const offset = readOffset(bytes, timeEnd, end);
    if (offset === INVALID) return false;
    this.seconds += (hour * 60 + minute - offset) * 60 + second;
    if (second === 60) return this.seconds % 86_400 === 0;
    this.micros = microsOf(bytes, start + 20, timeEnd);
    return true;
  }
}

/**
 * Formats a time of the years 0 to 9999 in UTC, with milliseconds. If the time is not a whole millisecond, the text contains
 * microseconds.
 */
export function formatMicros(micros: bigint): string {
  const approximate = Number(micros);
  if (Number.isSafeInteger(approximate)) {
    const second = Math.floor(approximate / 1e6);
    return formatSecond(second, approximate - second * 1e6);
  }
  const inSecond = ((micros % MILLION) + MILLION) % MILLION;
  return formatSecond(Number((micros - inSecond) / MILLION), Number(inSecond));
}

const FORMAT = { ok: false, reason: 'format' } as const;
const RANGE = { ok: false, reason: 'range' } as const;

/** Value for an invalid part of a time. Every range check rejects this value. */
const INVALID = 0x3fff_ffff;

const MILLION = 1_000_000n;

const SPACE = 0x20;
const PLUS = 0x2b;
const COMMA = 0x2c;
const MINUS = 0x2d;
const DOT = 0x2e;
const ZERO = 0x30;
const COLON = 0x3a;
const UPPER_T = 0x54;
const UPPER_Z = 0x5a;
const LOWER_T = 0x74;
const LOWER_Z = 0x7a;

/**
 * Returns the characters of a text as bytes, followed by zeros. The parser reads these zeros if the text of a time is short.
 */
function asciiOf(text: string): Buffer {
  const { length } = text;
  const bytes = length > USUAL_LENGTH ? Buffer.alloc(length + MARGIN) : ASCII;
  for (let i = 0; i < length; i++) bytes[i] = Math.min(text.charCodeAt(i), NO_ASCII);
  for (let i = length; i < length + MARGIN; i++) bytes[i] = 0;
  return bytes;
}

/** Parses the date that starts at `i`. Returns the days since 1970, or `INVALID`. */
function readDay(bytes: Buffer, i: number): number {
  if (bytes[i + 4] !== MINUS || bytes[i + 7] !== MINUS) return INVALID;
  const century = twoDigits(bytes, i);
  const year = century * 100 + twoDigits(bytes, i + 2);
  const month = twoDigits(bytes, i + 5);
  const day = twoDigits(bytes, i + 8);
  if (year > 9999 || month < 1 || month > 12 || day < 1 || day > daysInMonth(year, month)) return INVALID;
  return daysSince1970(year, month, day);
}

function daysInMonth(year: number, month: number): number {
  if (month !== 2) return month === 4 || month === 6 || month === 9 || month === 11 ? 30 : 31;
  return year % 4 === 0 && (year % 100 !== 0 || year % 400 === 0) ? 29 : 28;
}

/** Returns the number of days from 1970 to a date. Counts years from March, so that the leap day is the last day of a year. */
function daysSince1970(year: number, month: number, day: number): number {
  const marchYear = month > 2 ? year : year - 1;
  const marchMonth = month > 2 ? month - 3 : month + 9;
  const leapDays = Math.floor(marchYear / 4) - Math.floor(marchYear / 100) + Math.floor(marchYear / 400);
  return marchYear * 365 + leapDays + Math.floor((marchMonth * 153 + 2) / 5) + day - 1 - DAYS_TO_1970;
}

const DAYS_TO_1970 = 719_468;

function fractionEnd(bytes: Buffer, i: number): number {
  const point = bytes[i];
  if (point !== DOT && point !== COMMA) return i;
  const start = i + 1;
  i = start;
  while (isDigit(bytes[i] ?? 0)) i++;
  return i === start ? INVALID : i;
}

function areZeros(bytes: Buffer, start: number, end: number): boolean {
  for (let i = start; i < end; i++) {
    if (bytes[i] !== ZERO) return false;
  }
  return true;
}

function readOffset(bytes: Buffer, i: number, end: number): number {
  const rest = end - i;
  if (rest === 0) return 0;
  const sign = bytes[i];
  if (sign === UPPER_Z || sign === LOWER_Z) return rest === 1 ? 0 : INVALID;
  if (sign !== PLUS && sign !== MINUS) return INVALID;
  const hours = twoDigits(bytes, i + 1);
  let minutes = 0;
  if (rest === 5) minutes = twoDigits(bytes, i + 3);
  else if (rest === 6 && bytes[i + 3] === COLON) minutes = twoDigits(bytes, i + 4);
  else if (rest !== 3) return INVALID;
  if (hours > 23 || minutes > 59) return INVALID;
  return sign === PLUS ? hours * 60 + minutes : -(hours * 60 + minutes);
}

function microsOf(bytes: Buffer, start: number, end: number): number {
  let micros = 0;
  for (let i = start; i < start + 6; i++) {
    micros = micros * 10 + (i < end ? (bytes[i] ?? 0) - ZERO : 0);
  }
  return micros;
}

function momentAt(seconds: number, micros: number): ParsedOccurredAt {
  if (seconds < YEAR_1900 || seconds >= YEAR_2300) return RANGE;
  const total = seconds * 1e6 + micros;
  // After the year 2255, a double cannot represent the microseconds since 1970 exactly.
  if (Number.isSafeInteger(total)) return { ok: true, micros: BigInt(total) };
  return { ok: true, micros: BigInt(seconds) * MILLION + BigInt(micros) };
}

const YEAR_1900 = -2_208_988_800;
const YEAR_2300 = 10_413_792_000;

/** Creates the whole text with one call of `String.fromCharCode`, which is three times as fast as joining strings. */
function formatSecond(seconds: number, micros: number): string {
  const day = Math.floor(seconds / 86_400);
  const inDay = seconds - day * 86_400;
  const hour = div(inDay, 3600);
  const minute = div(inDay, 60) % 60;
  const second = inDay % 60;

  const fromMarch0 = day + DAYS_TO_1970;
  const era = Math.floor(fromMarch0 / DAYS_IN_400_YEARS);
  const inEra = fromMarch0 - era * DAYS_IN_400_YEARS;
  const leapDays = div(inEra, 1460) - div(inEra, 36_524) + div(inEra, 146_096);
  const yearInEra = div(inEra - leapDays, 365);
  const inYear = inEra - (yearInEra * 365 + div(yearInEra, 4) - div(yearInEra, 100));
  const marchMonth = div(inYear * 5 + 2, 153);
  const date = inYear - div(marchMonth * 153 + 2, 5) + 1;
  const month = marchMonth < 10 ? marchMonth + 3 : marchMonth - 9;
  const year = era * 400 + yearInEra + (month <= 2 ? 1 : 0);

  const milli = div(micros, 1000);
  // biome-ignore format: one line is one part of the text
  const text = String.fromCharCode(
    digit(year, 1000), digit(year, 100), digit(year, 10), digit(year, 1), MINUS,
    digit(month, 10), digit(month, 1), MINUS,
    digit(date, 10), digit(date, 1), UPPER_T,
    digit(hour, 10), digit(hour, 1), COLON,
    digit(minute, 10), digit(minute, 1), COLON,
    digit(second, 10), digit(second, 1), DOT,
    digit(milli, 100), digit(milli, 10), digit(milli, 1), UPPER_Z,
  );
  const rest = micros - milli * 1000;
  return rest === 0 ? text : `${text.slice(0, -1)}${String(rest).padStart(3, '0')}Z`;
}

const DAYS_IN_400_YEARS = 146_097;

/** Divides integers. JavaScript engines compile `(a / b) | 0` to an integer division. */
function div(dividend: number, divisor: number): number {
  return (dividend / divisor) | 0;
}

function digit(value: number, weight: number): number {
  return ZERO + (div(value, weight) % 10);
}

function twoDigits(bytes: Buffer, i: number): number {
  const tens = (bytes[i] ?? 0) - ZERO;
  const ones = (bytes[i + 1] ?? 0) - ZERO;
  return tens >= 0 && tens <= 9 && ones >= 0 && ones <= 9 ? tens * 10 + ones : INVALID;
}

function isDigit(code: number): boolean {
  return code >= ZERO && code <= 0x39;
}

const USUAL_LENGTH = 64;
const MARGIN = 8;
const NO_ASCII = 0xff;
const ASCII = Buffer.allocUnsafeSlow(USUAL_LENGTH + MARGIN);
const TIME = new TimeReader();
