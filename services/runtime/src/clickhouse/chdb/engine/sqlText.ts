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
