/** Replaces secrets in request bodies and objects by `***` for the audit. Limits each value to 64 KiB of JSON. */

const SECRET_NAME = /token$|secret|passw|credential|authorization|cookie|sha256|(api|private)_?key$/i;
const TOKEN = /qlt_[\w-]{16,}/g;
const HIDDEN = '***';
/** Maximum nesting depth of a value in the audit. Valid request bodies have fewer levels. */
const MAX_DEPTH = 20;
/** Maximum size of a text in the audit. An audit record has space for three texts of this size. */
const MAX_BYTES = 64 * 1024;
/** Limits of a shortened value: the characters that remain of a text, and the entries that remain of a list. */
const KEPT_CHARACTERS = 100;
const KEPT_ENTRIES = 32;

/** Returns a value as JSON with secrets replaced by `***`. Null if the value is null, undefined, or empty. */
export function redactedText(value: unknown, redact: (text: string) => string): string | null {
  if (value === undefined || value === null || value === '') return null;
  const full = redacted(value, redact, 0);
  const text = JSON.stringify(full);
  const bytes = Buffer.byteLength(text);
  if (bytes <= MAX_BYTES) return text;
  const shortened = JSON.stringify(truncated(full));
  return Buffer.byteLength(shortened) <= MAX_BYTES ? shortened : JSON.stringify({ leftOutBytes: bytes });
}

export function redactedWord(text: string, redact: (text: string) => string): string {
  return redact(text.replace(TOKEN, HIDDEN));
}

function redacted(value: unknown, redact: (text: string) => string, depth: number): unknown {
  if (typeof value === 'string') return redactedWord(value, redact);
  if (typeof value !== 'object' || value === null) return value;
  if (depth === MAX_DEPTH) return '…';
  if (Array.isArray(value)) return value.map((one) => redacted(one, redact, depth + 1));
  return Object.fromEntries(
    Object.entries(value).map(([name, one]) => {
      const isSecret = SECRET_NAME.test(name) && one !== null;
      return [redactedWord(name, redact), isSecret ? HIDDEN : redacted(one, redact, depth + 1)];
    }),
  );
}

function truncated(value: unknown): unknown {
  if (typeof value === 'string') return truncatedText(value);
  if (typeof value !== 'object' || value === null) return value;
  const entries = Object.entries(value);
  const more = omittedSuffix(KEPT_ENTRIES, entries.length);
  const kept = entries.slice(0, KEPT_ENTRIES).map(([name, one]) => [truncatedText(name), truncated(one)]);
  if (Array.isArray(value)) return [...kept.map(([, one]) => one), ...more];
  return Object.fromEntries([...kept, ...more.map((suffix) => ['…', suffix])]);
}

function truncatedText(text: string): string {
  const more = omittedSuffix(KEPT_CHARACTERS, text.length);
  return text.slice(0, KEPT_CHARACTERS).toWellFormed() + more.join('');
}

function omittedSuffix(kept: number, length: number): string[] {
  return length > kept ? [`… and ${length - kept} more`] : [];
}
