/** Generates the README of the Helm chart with helm-docs. */
import { execFileSync } from 'node:child_process';
import { ROOT } from '../tidy/projectFiles.ts';
import { CHART } from './render.ts';
import { ifAvailable, provideHelmDocs } from './tools.ts';

const ARGUMENTS = ['--dry-run', '--sort-values-order=file', '--log-level=warning'];

/** Returns the text of the README by its path. Returns no text if helm-docs is missing and cannot be built. */
export async function chartReadme(): Promise<Readonly<Record<string, string>>> {
  const helmDocs = await ifAvailable(provideHelmDocs, (line) => console.warn(line));
  if (helmDocs === undefined) return {};
  const options = { cwd: ROOT, encoding: 'utf8' } as const;
  const text = execFileSync(helmDocs, [`--chart-search-root=${CHART}`, ...ARGUMENTS], options);
  return { 'deploy/helm/questlog/README.md': `${text.trim()}\n` };
}
