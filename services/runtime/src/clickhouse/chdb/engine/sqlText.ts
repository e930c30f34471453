/** Values and names as SQL text. */

/** A string literal. Both escapes matter: without the first, a value that ends in a backslash would end the quotes. */
export function sqlString(value: string): string {
  return `'${value.replaceAll('\\', '\\\\').replaceAll("'", "\\'").replaceAll('\0', '\\0')}'`;
}

export function sqlIdentifier(name: string): string {
  return `\`${name.replaceAll('\\', '\\\\').replaceAll('`', '\\`')}\``;
}

/** `SET a='1', b='2'` */
export function setStatement(settings: Iterable<readonly [name: string, value: string]>): string {
  const changes = [...settings].map(([name, value]) => `${sqlIdentifier(name)}=${sqlString(value)}`);
  return `SET ${changes.join(', ')}`;
}

/**
 * An engine's print of a statement (`Engine.print`) with everything quoted blanked out, each character in its place: what
 * is left are keywords, symbols and names. The print has no comments, and backslashes only inside of quotes.
 */
export function maskQuoted(normalized: string): string {
  return normalized
    .replaceAll(/\\./gs, '__')
    .replaceAll(/'[^']*'|`[^`]*`/g, (quoted) => `${quoted[0]}${'_'.repeat(quoted.length - 2)}${quoted[0]}`);
}
