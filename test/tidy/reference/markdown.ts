/** The little Markdown that the reference pages are made of. */

export function page(title: string, source: string, blocks: readonly string[]): string {
  const note = `<!-- Generated from ${source} by npm run docs:reference -->`;
  return `${[`# ${title}`, note, ...blocks].join('\n\n')}\n`;
}

export function code(text: string): string {
  return text === '' ? '' : `\`${text}\``;
}

export function fence(language: string, text: string): string {
  return `\`\`\`${language}\n${text}\n\`\`\``;
}

export function list(lines: readonly string[]): string {
  return lines.map((line) => `- ${line}`).join('\n');
}

/** Returns the text of a list item. The meaning starts in lower case, unless its first word is an abbreviation or a name. */
export function entry(label: string, meaning: string): string {
  return `${label}: ${meaning.replace(/^[A-Z](?=[a-z]*(?:[ ,;:.]|$))/, (letter) => letter.toLowerCase())}`;
}

export function table(header: readonly string[], rows: readonly (readonly string[])[]): string {
  const [first = '', ...others] = [header, ...rows].map(
    (cells) => `| ${cells.map((cell) => cell.replace(/\|/g, '\\|')).join(' | ')} |`,
  );
  return [first, `|${'---|'.repeat(header.length)}`, ...others].join('\n');
}
