/** Parses the `Prefer` header (RFC 7240), with which clients choose how invalid elements and unknown fields are handled. */

import { ignoredFieldsHeader, type UnknownField } from '@questlog/runtime/http/core/unknownFields';
import type { Context } from 'koa';

/**
 * Values of the preference `handling`. With `lenient`, ingest stores the valid elements of a batch even if other elements are
 * invalid. With `strict`, unknown fields are errors.
 */
export type Handling = 'lenient' | 'strict';

/** Returns the first `handling` preference in a `Prefer` header. Undefined if its value is neither `strict` nor `lenient`. */
export function handlingIn(prefer: string): Handling | undefined {
  if (prefer === '') return undefined;
  // Removes the quotes around a single word. Replaces any other quoted text with a placeholder, because a comma in a quoted
  // text is not a separator.
  const unquoted = prefer.replace(/"([^"]*)"/g, (_, text: string) =>
    /^[a-z]*$/i.test(text) ? text : 'quoted',
  );
  for (const preference of unquoted.split(',')) {
    // Trims blanks without a regular expression, because a regular expression could take quadratic time.
    const [pair = ''] = preference.split(';', 1);
    const equals = pair.indexOf('=');
    if (equals === -1 || pair.slice(0, equals).trim().toLowerCase() !== 'handling') continue;
    const value = pair
      .slice(equals + 1)
      .trim()
      .toLowerCase();
    if (/\s/.test(value)) continue;
    return value === 'lenient' || value === 'strict' ? value : undefined;
  }
  return undefined;
}

/** True if the request has `handling=strict`. Endpoints for a single object ignore `handling=lenient`. */
export function isStrict(ctx: Context): boolean {
  return handlingIn(ctx.get('Prefer')) === 'strict';
}

/** Returns response headers that name the applied `handling` preference and the ignored fields. */
export function handlingHeaders(
  applied: Handling | undefined,
  ignored: readonly UnknownField[],
): Record<string, string> {
  const pointers = ignored.map(({ pointer }) => pointer);
  return {
    ...(applied !== undefined && { 'Preference-Applied': `handling=${applied}` }),
    ...(pointers.length > 0 && { 'Questlog-Ignored-Fields': ignoredFieldsHeader(pointers) }),
  };
}

export function setHandlingHeaders(
  ctx: Context,
  applied: Handling | undefined,
  ignored: readonly UnknownField[],
): void {
  ctx.set(handlingHeaders(applied, ignored));
  ctx.state['ignored'] = ignored;
}
