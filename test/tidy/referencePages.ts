/** Generates the pages of `docs/reference` from the code. */
import { clickhousePage } from './reference/clickhousePage.ts';
import { commandsPage } from './reference/commandsPage.ts';
import { configPage } from './reference/configPage.ts';
import { httpPage, openApiFiles } from './reference/httpPage.ts';
import { metricsPage } from './reference/metricsPage.ts';
import { problemsPage } from './reference/problemsPage.ts';
import { topicsPage } from './reference/topicsPage.ts';

export const REFERENCE = 'docs/reference';

/** Returns the texts of the pages by name. */
export async function referencePages(): Promise<Readonly<Record<string, string>>> {
  return {
    'clickhouse.md': clickhousePage(),
    'commands.md': commandsPage(),
    'config.md': configPage(),
    'http.md': httpPage(),
    'metrics.md': await metricsPage(),
    'problems.md': problemsPage(),
    'topics.md': topicsPage(),
    ...openApiFiles(),
  };
}
