/** What the audit keeps of a body or a record: all but secrets, and no more than fits. Pure. */

const SECRET_NAME = /token$|secret|passw|credential|authorization|cookie|sha256|(api|private)_?key$/i;
/** A game's token, wherever it stands. */
const TOKEN = /qlt_[\w-]{16,}/g;
const HIDDEN = '***';
/** Nothing that operators send is nested so deep; what is must not fill the stack. */
const MAX_DEPTH = 20;
/** Three of them fit into a record of the topic. */
const MAX_BYTES = 64 * 1024;
/**
 * What is larger is kept in part. A character takes up to six bytes as JSON: so cut, all switches of a project fit with what
 * each does, and nobody hides one behind long texts.
 */
const KEPT_CHARACTERS = 100;
const KEPT_ENTRIES = 32;

/**
 * As JSON; null where there is nothing.
 * @param redact what else is secret in a text, whatever field it stands in
 */
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

/** Nothing where nothing is left out. */
function omittedSuffix(kept: number, length: number): string[] {
  return length > kept ? [`… and ${length - kept} more`] : [];
}
