/** Formats values and names as SQL text. */

/** Returns a string literal. Backslashes are escaped because a backslash at the end would escape the closing quote. */
export function sqlString(value: string): string {
  return `'${value.replaceAll('\\', '\\\\').replaceAll("'", "\\'").replaceAll('\0', '\\0')}'`;
}

export function sqlIdentifier(name: string): string {
  return `\`${name.replaceAll('\\', '\\\\').replaceAll('`', '\\`')}\``;
}

export function setStatement(settings: Iterable<readonly [name: string, value: string]>): string {
  const changes = [...settings].map(([name, value]) => `${sqlIdentifier(name)}=${sqlString(value)}`);
  return `SET ${changes.join(', ')}`;
}

/** Replaces the quoted characters of a normalized statement by `_`. The positions of all characters stay the same. */
export function maskQuoted(normalized: string): string {
  return normalized
    .replaceAll(/\\./gs, '__')
    .replaceAll(/'[^']*'|`[^`]*`/g, (quoted) => `${quoted[0]}${'_'.repeat(quoted.length - 2)}${quoted[0]}`);
}

/**
 * Returns true if ClickHouse ends every quoted text of a normalized statement where `maskQuoted` ends the text. ClickHouse's
 * formatter copies the type of a query parameter (`{name:Type}`) from the client's statement, so a type can contain comments and
 * double quotes. Such a comment can contain a single quote, which hides the rest of the statement. Returns false for such
 * statements, and for a type with backquotes, whose escape sequences the formatter does not resolve.
 */
export function isUnambiguous(normalized: string): boolean {
  const text = maskQuoted(normalized);
  return UNQUOTED_AND_MASKED.test(text) && !/\{[^{}`]*`/.test(text);
}

const UNQUOTED_AND_MASKED = /^(?:[\w !%&()*+,.:<=>?@[\]^{|}~]|'_*'|`_*`|-(?!-)|\/(?![*/]))*$/;
