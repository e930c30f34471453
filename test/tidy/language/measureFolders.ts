/** `npm run measure:language -- <folder> …`: prints the figures of each folder, such as a checkout of another project. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { measureLanguage } from './measure.ts';

const SOURCE = /\.(m?[jt]s|py|rs|md)$/;
const SKIPPED = /^(node_modules|dist|\..*)$/;

for (const folder of process.argv.slice(2)) {
  const files = filesUnder(folder).map((path) => ({ path, text: readFileSync(path, 'utf8') }));
  const { commentLines, openings, commentPhrases, textPhrases, pagePhrases } = measureLanguage(files);
  const per1000 = [openings, commentPhrases, textPhrases, pagePhrases].map((figure) => figure.toFixed(2));
  console.log(
    `${folder}: ${commentLines} comment lines; per 1,000 comment lines ${per1000[0]} openings; per 1,000 words ` +
      `${per1000[1]} phrases in comments, ${per1000[2]} in texts, ${per1000[3]} in Markdown`,
  );
}

function filesUnder(folder: string): string[] {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    if (SKIPPED.test(entry.name)) return [];
    const path = join(folder, entry.name);
    if (entry.isDirectory()) return filesUnder(path);
    return SOURCE.test(entry.name) ? [path] : [];
  });
}
