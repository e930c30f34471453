/** Builds `docs/evidence/performance.md` from the results of the benchmarks. */
import { fileURLToPath } from 'node:url';
import { CLUSTER_WORDS, clusterReport } from '../cluster/clusterReport.ts';
import { FLAT_WORDS, flatReport } from '../flat/flatReport.ts';
import { kindsReport } from '../kinds/kindsReport.ts';
import { restReport } from '../rest/restReport.ts';
import { TRACES_WORDS, tracesReport } from '../traces/tracesReport.ts';
import { type BenchResults, readResults } from './pathFigures.ts';
import { againstReport, factsLine, pathReport } from './pathReport.ts';

export const PERFORMANCE_PAGE = 'docs/evidence/performance.md';
export const RESULTS = 'docs/evidence/performance.json';

export function performancePage(): string {
  const results = Object.values(readResults(fileURLToPath(new URL(`../../../${RESULTS}`, import.meta.url))));
  const sections = SECTIONS.flatMap(({ title, flags, words, report, onPage }) => [
    `## ${title}`,
    `\`npm run bench -- ${flags}\` ${words}`,
    ...results.flatMap((ofMachine) => (onPage ?? report)(ofMachine) ?? []),
  ]);
  return `${['# Performance results', GENERATED, ...HEAD, ...sections].join('\n\n')}\n`;
}

/** Returns the results without explanations, and the results that the page does not show. */
export function resultBlocks(results: BenchResults): string[] {
  return [
    ...SECTIONS.flatMap(({ report }) => report(results) ?? []),
    ...(results.against === undefined ? [] : [againstReport(results.against)]),
  ];
}

interface Section {
  readonly title: string;
  /** Options of the command that measures the section. */
  readonly flags: string;
  readonly words: string;
  /** Returns undefined if the section has not been measured. */
  report(results: BenchResults): string | undefined;
  /** Returns the text for the page. Undefined if the page shows the report. */
  readonly onPage?: (results: BenchResults) => string | undefined;
}

const GENERATED = `<!-- Generated from ${RESULTS}. Add --json ${RESULTS} to a command, then run: npm run docs:reference -->`;

const HEAD = [
  `\`npm run bench\` compares the CPU times of four servers that receive the
same events, one after the other, on one machine with one Kafka broker and \`acks=all\`.`,
  `- Questlog validates each event, checks its session and quota, stores the event, and returns it.
- The [simple server](../../test/bench/peers/afternoon.ts) uses Koa and kafkajs, and writes one message per event.
- The [\`node:http\` server](../../test/bench/peers/floor.ts) reads the body, responds with two bytes, and stores nothing.
- The [OpenTelemetry Collector](../../test/bench/peers/collector.ts) checks nothing, writes one message per request, and returns two bytes.`,
  `\`--against COMMIT\` compares with an earlier commit. \`--rows 500x8,1x64\` and \`--seconds 5\` shorten a run.`,
];

const SECTIONS: readonly Section[] = [
  {
    title: 'Kinds of requests',
    flags: '--runs 3',
    words: `measures each kind of request between two measurements of plain requests, in the same process. [The summary](../performance.md) shows the figures.`,
    report: ({ kinds, beside }) => kinds && kindsReport(kinds, beside),
    onPage: ({ kinds }) => kinds && factsLine(kinds.run),
  },
  {
    title: 'Compared with other servers',
    flags: '--runs 3',
    words: `compares the servers. A machine's second table shows the maximum requests per second, and the
latencies p50/p99 in ms. For the latencies, every server gets half of the maximum rate of the slowest server. A latency includes the delay of a request that was sent late.`,
    report: ({ beside }) => beside && pathReport(beside),
  },
  {
    title: 'Larger deployments',
    flags: '--flat',
    words: FLAT_WORDS,
    report: ({ flat }) => flat && flatReport(flat),
  },
  {
    title: 'Traces',
    flags: '--traces --runs 3 --seconds 60',
    words: TRACES_WORDS,
    report: ({ traces }) => traces && tracesReport(traces),
  },
  {
    title: 'ClickHouse cluster',
    flags: '--cluster --runs 5',
    words: CLUSTER_WORDS,
    report: ({ cluster }) => cluster && clusterReport(cluster),
  },
  {
    title: 'At rest',
    flags: '--rest',
    words: 'measures six starts with the same data folder, and then the idle processes.',
    report: ({ rest }) => rest && restReport(rest),
  },
];
