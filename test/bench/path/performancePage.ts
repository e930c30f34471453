/** `docs/performance.md`, made from the result of a run of the bench: nothing on it is typed. */
import { existsSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { fairnessSection } from '../fairness/fairnessReport.ts';
import type { PathResult } from './pathFigures.ts';
import { pathReport, profileTables } from './pathReport.ts';

export const PERFORMANCE_PAGE = 'docs/performance.md';
const RESULT = 'docs/performance.json';

export function performancePage(): string {
  const path = fileURLToPath(new URL(`../../../${RESULT}`, import.meta.url));
  const result: PathResult | undefined = existsSync(path)
    ? JSON.parse(readFileSync(path, 'utf8'))
    : undefined;
  const figures = result === undefined ? ['It has not been run yet.'] : figuresOf(result);
  return `${[...HEAD, ...figures, ...fairnessSection()].join('\n\n')}\n`;
}

const HEAD = [
  '# Performance',
  `<!-- Generated from ${RESULT}. To make it anew, run: npm run bench -- --runs 3 --profile --json ${RESULT} && npm run docs:reference -->`,
  `\`npm run bench\` sends the same events to the ingest of Questlog and to three other servers, one after the other, on one machine
and one Kafka broker with acks of all. What is compared is the CPU of the process that serves, from \`/proc\`.`,
  `- Questlog checks each event, looks its session up, counts it against the quota, and answers it with its payload.
- The [afternoon version](../test/bench/peers/afternoon.ts) is what a team writes first: Koa, kafkajs, one message an event. It answers each event too.
- The [\`node:http\` floor](../test/bench/peers/floor.ts) reads the body, answers two bytes and keeps nothing.
- The [OpenTelemetry Collector](../test/bench/peers/collector.ts) takes the events as OTLP logs in JSON, the payload as text, and writes
  one message a request. It checks nothing, and answers two bytes. Its builder makes it, which needs Go.`,
  `\`--rows 500x8,1x64\` and \`--seconds 5\` shorten a run, \`--runs 3\` tells medians of three, \`--profile\` profiles Questlog in each row, \`--check\` fails where a ratio to
the Collector is more than 10 % past what is to be reached. \`--against COMMIT\` measures that commit, this tree, and the commit again, without
the others: where the commit differs from itself by more than 5 %, the machine was too busy, and the verdict is "inconclusive". A
difference that is no larger than the commit's from itself is none.`,
];

function figuresOf(result: PathResult): string[] {
  const profiles = profileTables(result.rows);
  const head = [
    '## Where the time goes',
    'The first ten functions by their own time, while the process is loaded.',
  ];
  return ['## Figures', pathReport(result), ...(profiles.length === 0 ? [] : [...head, ...profiles])];
}
