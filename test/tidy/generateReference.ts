/** `npm run docs:reference`: writes the pages of `docs/reference` from the code that they describe. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { ROOT } from './house.ts';
import { clickhousePage } from './reference/clickhousePage.ts';
import { configPage } from './reference/configPage.ts';
import { httpPage } from './reference/httpPage.ts';
import { metricsPage } from './reference/metricsPage.ts';
import { problemsPage } from './reference/problemsPage.ts';
import { topicsPage } from './reference/topicsPage.ts';

export const REFERENCE = 'docs/reference';

/** The pages by their names. */
export async function referencePages(): Promise<Readonly<Record<string, string>>> {
  return {
    'clickhouse.md': clickhousePage(),
    'config.md': configPage(),
    'http.md': httpPage(),
    'metrics.md': await metricsPage(),
    'problems.md': problemsPage(),
    'topics.md': topicsPage(),
  };
}

if (import.meta.main) {
  mkdirSync(join(ROOT, REFERENCE), { recursive: true });
  for (const [name, text] of Object.entries(await referencePages())) {
    writeFileSync(join(ROOT, REFERENCE, name), text);
    process.stdout.write(`${REFERENCE}/${name}\n`);
  }
}
