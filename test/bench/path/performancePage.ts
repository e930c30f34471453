/** `docs/evidence/performance.md`, made from the results of the bench: nothing on it is typed. */
import { fileURLToPath } from 'node:url';
import { fairnessSection } from '../fairness/fairnessReport.ts';
import { FLAT_WORDS, flatReport } from '../flat/flatReport.ts';
import { restReport } from '../rest/restReport.ts';
import { type BenchResults, readResults } from './pathFigures.ts';
import { againstReport, pathReport, profileTables } from './pathReport.ts';

export const PERFORMANCE_PAGE = 'docs/evidence/performance.md';
export const RESULTS = 'docs/evidence/performance.json';

export function performancePage(): string {
  const results = readResults(fileURLToPath(new URL(`../../../${RESULTS}`, import.meta.url)));
  const sections = SECTIONS.flatMap(({ title, flags, words, blocks }) => {
    const measured = blocks(results);
    const command = `npm run bench -- ${flags} --json ${RESULTS} && npm run docs:reference`;
    return [
      `## ${title}`,
      `<!-- Generated from ${RESULTS}. To make it anew, run: ${command} -->`,
      words,
      ...(measured.length === 0 ? ['It has not been run yet.'] : measured),
    ];
  });
  return `${['# Performance', ...HEAD, ...sections, ...fairnessSection()].join('\n\n')}\n`;
}

/** What was measured, without a word around it. */
export function resultBlocks(results: BenchResults): string[] {
  return SECTIONS.flatMap(({ blocks }) => blocks(results));
}

interface Section {
  readonly title: string;
  /** Of the command that measures it. */
  readonly flags: string;
  readonly words: string;
  /** None where it was not measured. */
  blocks(results: BenchResults): string[];
}

const HEAD = [
  `\`npm run bench\` sends the same events to the ingest of Questlog and to three other servers, one after the other, on one machine
and one Kafka broker with acks of all. What is compared is the CPU of the process that serves, from \`/proc\`.`,
  `- Questlog checks each event, looks its session up, counts it against the quota, and answers it with its payload.
- The [afternoon version](../../test/bench/peers/afternoon.ts) is what a team writes first: Koa, kafkajs, one message an event. It answers each event too.
- The [\`node:http\` floor](../../test/bench/peers/floor.ts) reads the body, answers two bytes and keeps nothing.
- The [OpenTelemetry Collector](../../test/bench/peers/collector.ts) takes the events as OTLP logs in JSON, the payload as text, and writes
  one message a request. It checks nothing, and answers two bytes. Its builder makes it, which needs Go.`,
  `Each part below is of the last run that measured it. With \`--json FILE\` a run writes its own part and leaves the others. \`--rows 500x8,1x64\`
and \`--seconds 5\` shorten a run. Figures of a busy machine are no figures: let nothing else run beside.`,
];

const SECTIONS: readonly Section[] = [
  {
    title: 'Beside other servers',
    flags: '--runs 3 --profile',
    words: `\`--runs 3\` tells medians of three, \`--profile\` profiles Questlog in each row, \`--check\` fails where a ratio to
the Collector is more than 10 % past what is to be reached. It takes a minute and a half a row and run. \`npm run test:all\` has a short form, which
fails where Questlog has become worse by a quarter beside the afternoon version.`,
    blocks: ({ beside }) => {
      if (beside === undefined) return [];
      const profiles = profileTables(beside.rows);
      const head = [
        '### Where the time goes',
        'The first ten functions by their own time, while the process is loaded.',
      ];
      return [pathReport(beside), ...(profiles.length === 0 ? [] : [...head, ...profiles])];
    },
  },
  {
    title: 'Before and after',
    flags: '--against COMMIT --profile',
    words: `\`--against COMMIT\` measures that commit, this tree, and the commit again, without the other servers: where the commit differs
from itself by more than 5 %, the machine was too busy, and the verdict is "inconclusive". A difference that is no larger than
the commit's from itself is none. It takes a minute and a half a row.`,
    blocks: ({ against }) => (against === undefined ? [] : [againstReport(against)]),
  },
  {
    title: 'With more of everything',
    flags: '--flat',
    words: FLAT_WORDS,
    blocks: ({ flat }) => (flat === undefined ? [] : [flatReport(flat)]),
  },
  {
    title: 'At rest',
    flags: '--rest',
    words: `\`--rest\` starts \`npm start\`'s process six times on one folder, and looks at it while nobody uses it. It takes a minute and a half.
\`--against COMMIT\` does the same with that commit first, since such figures are of one machine.`,
    blocks: ({ rest }) => (rest === undefined ? [] : [restReport(rest)]),
  },
];
