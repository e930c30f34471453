/** `Prefer` (RFC 7240): what a client wants done about elements that are bad, or about fields that are not known. */
import type { Context } from 'koa';
import { ignoredFieldsHeader, type UnknownField } from '../core/unknownFields.ts';

/** `lenient`: the good elements of a batch are stored. `strict`: an unknown field is a problem. */
export type Handling = 'lenient' | 'strict';

/** The first one counts where a preference comes twice; a value that is neither is no preference. */
export function handlingIn(prefer: string): Handling | undefined {
  if (prefer === '') return undefined;
  // What is quoted may hold a comma; only a plain word in quotes can be the one looked for.
  const unquoted = prefer.replace(/"([^"]*)"/g, (_, text: string) =>
    /^[a-z]*$/i.test(text) ? text : 'quoted',
  );
  for (const preference of unquoted.split(',')) {
    // Without a pattern: one that skips blanks on both sides of nothing takes the square of their number.
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

/** For endpoints without batches, of which lenient asks nothing. */
export function isStrict(ctx: Context): boolean {
  return handlingIn(ctx.get('Prefer')) === 'strict';
}

/** The answer says what was heeded, and names the fields that were not. */
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
