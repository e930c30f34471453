/**
 * Generates the pages of `docs/reference` from the code, and the pages of `docs/evidence` and the sizes of deployments from
 * results.
 */
import { SECURITY_PAGE, securityPage } from '../abuse/securityPage.ts';
import { FAIRNESS_PAGE, fairnessPage } from '../bench/fairness/fairnessReport.ts';
import { PERFORMANCE_PAGE, performancePage } from '../bench/path/performancePage.ts';
import { performanceSummary, SUMMARY_PAGE } from '../bench/path/performanceSummary.ts';
import { SIZING_PAGE, sizingPage } from '../bench/sizing/sizingPage.ts';
import { PAGE, reliabilityPage } from '../faults/campaign/reliabilityPage.ts';
import { readResults } from '../faults/campaign/results.ts';
import { clickhousePages } from './reference/clickhousePage.ts';
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
    ...clickhousePages(),
    'commands.md': commandsPage(),
    'config.md': configPage(),
    'http.md': httpPage(),
    'metrics.md': await metricsPage(),
    'problems.md': problemsPage(),
    'topics.md': topicsPage(),
    ...openApiFiles(),
  };
}

/** Returns the texts of the pages of results by path. */
export function evidencePages(): Readonly<Record<string, string>> {
  return {
    [PAGE]: reliabilityPage(readResults()),
    [SECURITY_PAGE]: securityPage(),
    [PERFORMANCE_PAGE]: performancePage(),
    [SUMMARY_PAGE]: performanceSummary(),
    [FAIRNESS_PAGE]: fairnessPage(),
    [SIZING_PAGE]: sizingPage(),
  };
}
