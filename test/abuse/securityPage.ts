/** `docs/evidence/security.md`, made from the figures of a run of the abuse suite: nothing on it is typed. */
import { existsSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import type { Figure } from './figures.ts';

export const SECURITY_PAGE = 'docs/evidence/security.md';
export const SECURITY_FIGURES = 'docs/evidence/security.jsonl';

/** The first line of the file. */
export interface Ground {
  readonly form: 'long' | 'short';
  /** ISO 8601. */
  readonly at: string;
  readonly cpus: number;
  readonly node: string;
  /** How long it took. */
  readonly minutes?: number;
}

/** What other files of the tests try, with every run of them. */
export const BESIDE = [
  [
    'services/runtime/src/process/listener/connections.test.ts',
    'raw sockets: framings that two servers read differently',
  ],
  ['services/runtime/src/process/listener/pipelining.test.ts', 'raw sockets: pipelined requests'],
  ['test/e2e/connections.test.ts', 'raw sockets: heads and bodies that stop, what comes behind a refusal'],
  ['test/e2e/encodings.test.ts', 'content codings: broken, nested, with something behind their end'],
  ['test/e2e/limits.test.ts', 'limits of a request'],
  ['services/ingest/src/http/bodyBudget.test.ts', 'bodies that are held back'],
] as const;

export function securityPage(): string {
  const path = fileURLToPath(new URL(`../../${SECURITY_FIGURES}`, import.meta.url));
  const lines = existsSync(path) ? readFileSync(path, 'utf8').split('\n').filter(Boolean) : [];
  const [ground, ...figures] = lines.map((line) => JSON.parse(line)) as [Ground?, ...Figure[]];
  const blocks = [
    '# What was tried against it',
    `<!-- Generated from ${SECURITY_FIGURES}. To make it anew, run: npm run test:abuse -->`,
    'Who might try, and what stops them, is in the [threat model](../threat-model.md).',
    ground === undefined
      ? 'It has not been run yet.'
      : `The ${ground.form} form, on ${ground.at.slice(0, 10)}, ${ground.cpus} cores, Node ${ground.node}${ground.minutes === undefined ? '' : `, ${ground.minutes} minutes`}. A product of its own on the embedded engines.`,
    ['| attack | tried | held |', '| --- | --- | --- |', ...figures.map(rowOf)].join('\n'),
    `Schemathesis leaves out what does not end, \`/v1/linked-events\` and \`/admin/tail\`. It may be refused what fits the document (no
\`positive_data_acceptance\`) on six paths of operators: the document cannot say that times are in order, or that a query is SQL. Its
[hooks](../../test/abuse/schemathesis/hooks.py) keep it from what only words say: a cursor is of an earlier page, a build has its own id.`,
    'Beside it, with every run of the tests:',
    BESIDE.map(([file, what]) => `- [${file}](../../${file}): ${what}`).join('\n'),
  ];
  return `${blocks.join('\n\n')}\n`;
}

function rowOf({ attack, tried, held }: Figure): string {
  return `| ${[attack, tried, held].map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`;
}
