/** Rows as a table for a terminal: columns as wide as their widest cell, numbers to the right. */

export function textTable(
  columns: readonly string[],
  rows: readonly Readonly<Record<string, unknown>>[],
): string {
  const cells = rows.map((row) => columns.map((column) => cellText(row[column])));
  const widths = columns.map((column, i) =>
    Math.max(column.length, ...cells.map((row) => row[i]?.length ?? 0)),
  );
  const numeric = columns.map(
    (_, i) => cells.length > 0 && cells.every((row) => /^-?[\d.]+$/.test(row[i] ?? '')),
  );
  const line = (texts: readonly string[]): string =>
    texts
      .map((text, i) => (numeric[i] === true ? text.padStart(widths[i] ?? 0) : text.padEnd(widths[i] ?? 0)))
      .join('  ')
      .trimEnd();
  const rule = widths.map((width) => '─'.repeat(width)).join('  ');
  return `${[line(columns), rule, ...cells.map(line)].join('\n')}\n`;
}

function cellText(value: unknown): string {
  return typeof value === 'string' ? value.replaceAll('\n', '⏎') : JSON.stringify(value ?? null);
}
