/** The figures of a bench as Markdown, with their day and their machine, put between the markers of a page. */
import { readFileSync, writeFileSync } from 'node:fs';
import { cpus, totalmem } from 'node:os';

const BEGIN = '<!-- figures:begin -->';
const END = '<!-- figures:end -->';

export function page(rows: readonly string[]): string {
  const [cpu] = cpus();
  const gibibytes = (totalmem() / 1024 ** 3).toFixed(0);
  const machine = `${cpu?.model ?? 'an unknown CPU'}, ${cpus().length} cores, ${gibibytes} GiB, ${process.platform}`;
  const date = new Date().toISOString().slice(0, 10);
  return [`Measured ${date} on ${machine}, Node ${process.versions.node}.`, ...rows].join('\n');
}

/** @throws when the page has no place for figures. */
export function putIntoPage(path: string, report: string): void {
  const page = readFileSync(path, 'utf8');
  const [begin, end] = [page.indexOf(BEGIN), page.indexOf(END)];
  if (begin < 0 || end < begin) throw new Error(`${path} has no ${BEGIN} … ${END}`);
  writeFileSync(path, `${page.slice(0, begin + BEGIN.length)}\n\n${report}\n\n${page.slice(end)}`);
}
