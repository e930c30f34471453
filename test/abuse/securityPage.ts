/** Generates `docs/evidence/security.md` from the figures of a run of the abuse suite. */
import { existsSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { list } from '../tidy/reference/markdown.ts';
import type { Figure } from './figures.ts';

export const SECURITY_PAGE = 'docs/evidence/security.md';
export const SECURITY_FIGURES = 'docs/evidence/security.jsonl';

/** First line of the result file: the machine and the run. */
export interface Ground {
  readonly form: 'long' | 'short';
  /** Time of the run, ISO 8601. */
  readonly at: string;
  readonly cpus: number;
  readonly node: string;
  /** Duration of the run. */
  readonly minutes?: number;
}

/** Other test files with attacks, which every test run includes. */
export const OTHER_TESTS = [
  ['services/runtime/src/process/listener/connections.test.ts', 'raw sockets: ambiguous framing'],
  ['services/runtime/src/process/listener/pipelining.test.ts', 'raw sockets: pipelining'],
  ['test/e2e/connections.test.ts', 'raw sockets: incomplete headers and bodies, data after a rejection'],
  ['test/e2e/encodings.test.ts', 'content codings: broken, nested, with trailing data'],
  ['test/e2e/limits.test.ts', 'request limits'],
  ['services/ingest/src/limits/bodyBudget.test.ts', 'withheld bodies'],
] as const;

export function securityPage(): string {
  const path = fileURLToPath(new URL(`../../${SECURITY_FIGURES}`, import.meta.url));
  const lines = existsSync(path) ? readFileSync(path, 'utf8').split('\n').filter(Boolean) : [];
  const [ground, ...figures] = lines.map((line) => JSON.parse(line)) as [Ground?, ...Figure[]];
  const blocks = [
    '# Security results',
    `<!-- Generated from ${SECURITY_FIGURES}. To run the attacks again, run: npm run test:abuse -->`,
    'The [threat model](../threat-model.md) names attackers and defenses.',
    ground === undefined
      ? 'The tests have not run yet.'
      : `The ${ground.form} form of \`npm run test:abuse\` ran on ${ground.at.slice(0, 10)}${ground.minutes === undefined ? '' : `, and took ${ground.minutes} minutes`}. Questlog ran in one process with ${ground.cpus} cores and Node ${ground.node}.`,
    'Each line has the attack, what was sent (in parentheses), and the result.',
    list(figures.map(({ attack, tried, held }) => `${attack} (${tried}): ${held}`)),
    `Schemathesis generates requests from the OpenAPI documents, except for \`/v1/linked-events\` and \`/admin/tail\`, whose responses never end.`,
  ];
  return `${blocks.join('\n\n')}\n`;
}
