/** Generates the table of values in the README of the Helm chart from the comments in `values.yaml`. */
import { parse } from 'yaml';
import { textOf } from '../projectFiles.ts';
import { code, table } from './markdown.ts';

export const CHART_README = 'deploy/helm/questlog/README.md';
const VALUES = 'deploy/helm/questlog/values.yaml';
const END_OF_TEXT = 'run: npm run docs:reference -->\n';

/** Returns the README with the current table. The text before the table is not generated. */
export function chartReadme(): string {
  const text = textOf(CHART_README);
  const end = text.indexOf(END_OF_TEXT) + END_OF_TEXT.length;
  return `${text.slice(0, end)}\n${table(['value', 'default', 'meaning'], rows())}\n`;
}

function rows(): string[][] {
  const values: unknown = parse(textOf(VALUES));
  const path: { readonly indent: number; readonly name: string }[] = [];
  const found: string[][] = [];
  let comment = '';
  for (const line of textOf(VALUES).split('\n')) {
    const { indent = '', name } = /^(?<indent> *)(?<name>\w+):/.exec(line)?.groups ?? {};
    const meaning = /^ *# -- (?<text>.*)$/.exec(line)?.groups?.['text'];
    if (meaning !== undefined) comment = meaning;
    if (name === undefined) continue;
    while ((path.at(-1)?.indent ?? -1) >= indent.length) path.pop();
    path.push({ indent: indent.length, name });
    if (comment === '') continue;
    const names = path.map((part) => part.name);
    found.push([code(names.join('.')), code(JSON.stringify(valueAt(values, names))), comment]);
    comment = '';
  }
  return found;
}

function valueAt(values: unknown, names: readonly string[]): unknown {
  return names.reduce((value, name) => Reflect.get(Object(value), name), values);
}
