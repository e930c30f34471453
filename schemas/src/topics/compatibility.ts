/** Checks whether a schema may follow an earlier version, for a registry and for Questlog's own decoder. */
import avsc from 'avsc';
import { type Compatibility, parseSchema } from './contract.ts';

/** Returns the reason why `next` may not follow `earlier`, as the end of a sentence. Undefined if `next` may follow. */
export function compatibilityFault(
  compatibility: Compatibility,
  earlier: string,
  next: string,
): string | undefined {
  const unread = whyUnread(earlier, next);
  if (unread !== undefined) return `this version cannot read that one: ${unread}`;
  const unreadBefore = compatibility === 'FULL_TRANSITIVE' ? whyUnread(next, earlier) : undefined;
  return unreadBefore === undefined ? undefined : `that version cannot read this one: ${unreadBefore}`;
}

/**
 * Returns the reason why `read` cannot decode records of `written`. Checks plain Avro types, as a registry does, and the types
 * of this process.
 */
function whyUnread(written: string, read: string): string | undefined {
  try {
    plainType(read).createResolver(plainType(written));
    parseSchema(read).createResolver(parseSchema(written));
    return undefined;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

function plainType(schema: string): avsc.Type {
  return avsc.Type.forSchema(JSON.parse(schema));
}
