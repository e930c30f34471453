/** Checks whether a new version of an Avro schema is compatible with an earlier version. */
import avsc from 'avsc';
import { type Compatibility, parseSchema } from './contract.ts';

/** Returns the reason why the schema `next` is incompatible with `earlier`, or undefined if the schemas are compatible. */
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

/** Returns the reason why the schema `read` cannot decode records of the schema `written`, or undefined. */
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
