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
 * As JSON; null where there is nothing.
 * @param hide what else is secret in a text, whatever field it stands in
 */
export function redactedText(value: unknown, hide: (text: string) => string): string | null {
  if (value === undefined || value === null || value === '') return null;
  const text = JSON.stringify(redacted(value, hide, 0));
  const bytes = Buffer.byteLength(text);
  return bytes > MAX_BYTES ? JSON.stringify({ leftOutBytes: bytes }) : text;
}

export function redactedWord(text: string, hide: (text: string) => string): string {
  return hide(text.replace(TOKEN, HIDDEN));
}

function redacted(value: unknown, hide: (text: string) => string, depth: number): unknown {
  if (typeof value === 'string') return redactedWord(value, hide);
  if (typeof value !== 'object' || value === null) return value;
  if (depth === MAX_DEPTH) return '…';
  if (Array.isArray(value)) return value.map((one) => redacted(one, hide, depth + 1));
  return Object.fromEntries(
    Object.entries(value).map(([name, one]) => {
      const isSecret = SECRET_NAME.test(name) && one !== null;
      return [redactedWord(name, hide), isSecret ? HIDDEN : redacted(one, hide, depth + 1)];
    }),
  );
}
