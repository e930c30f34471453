/** Builds `docs/evidence/reliability.md` from the result files. */
import { mutationBlocks } from '../../mutation/mutationResults.ts';
import { list, table } from '../../tidy/reference/markdown.ts';
import { hasFailed, RESULTS, type Result } from './results.ts';
import type { Row } from './row.ts';
import { GROUPS_OF_ROWS } from './rows.ts';

export const PAGE = 'docs/evidence/reliability.md';

const INTRODUCTION = `Every run checks the promises in [the summary](../reliability.md). A deployment has three brokers, a schema registry, ClickHouse, and two
processes of each service. Twelve clients send events at half of their maximum rate. A run injects a fault, and then compares every response
with the tables and topics. The column \`passed\` has the passed, required, and failed runs.

\`npm run test:faults -- --row NAME --seed N\` repeats a run. Before 2026-11-30, many runs injected several faults. A failed
check counted for each of these faults.`;

/** Text before the rows of a group. */
const NOTES: Readonly<Record<string, string>> = {
  'ClickHouse cluster': `The cluster has two shards of two replicas and one keeper. A run checks every replica. No run used ClickHouse's images, no
fault requires them, and the keeper was ZooKeeper.`,
};

const LATE_COMMIT =
  'probably a bug (fixed in 684b9de): a late offset commit reset the offset of the consumer group.';

const LATE_START = 'the machine was overloaded: processes started too slowly.';
const DETACHED =
  'bugs (fixed in eb624be and d1f9d84): an erasure waited for a detached part without needed rows.';
const SHORT_WAIT = 'the test of an erasure did not wait long enough.';
const FEW_LINKS = 'fewer than 20 links.';
const WRONG_VERIFIER = 'the test sent every verification to the same process, whose clock was behind.';

/** The causes of failed runs: the commit of the run, the start of its finding, and the cause. */
const CAUSES: readonly (readonly [commit: string, finding: string, cause: string])[] = [
  [
    '0db0cb22f6',
    'still-ingest: ',
    'a bug (fixed in 9223460): a stopped ingest closed connections with unread requests.',
  ],
  [
    'a75db423ad',
    'a probe was answered 503',
    'the test wrongly expected no 503 while ClickHouse was unavailable.',
  ],
  [
    '1c666a5bfc',
    'not within 120000 ms',
    'probably a bug (fixed in 276a113): kafkajs never answered a request that was written while its connection closed.',
  ],
  ['1c666a5bfc', 'not within 90000 ms', LATE_COMMIT],
  ['3f3d22e92b', 'not within 90000 ms', LATE_COMMIT],
  ['e1fbf1130e', 'condition not met within 240000 ms', DETACHED],
  ['d231cba274', 'condition not met within 240000 ms', DETACHED],
  ['a9cc2f7361', 'condition not met within 240000 ms', SHORT_WAIT],
  ['f0f943e4c1', 'erase-without-replica: the erasure ended', SHORT_WAIT],
  [
    '53ba28852f',
    '10-2-3 was answered 500',
    'a bug (fixed in 3928e3f): ingest answered 500 if a node was killed during a distributed query.',
  ],
  ['140cb87c49', '4034 events and 6 links', FEW_LINKS],
  ['140cb87c49', '10136 events and 18 links', FEW_LINKS],
  ['3cf74eb32d', 'exited with 1', LATE_START],
  ['dcd6885895', 'verify found ', WRONG_VERIFIER],
  ['370167f405', 'verify found ', WRONG_VERIFIER],
  ['898c54036a', 'exited with 1', LATE_START],
  ['6626bce614', 'it broke off: exited with 1', LATE_START],
  ['6626bce614', 'not ready within 120000 ms', LATE_START],
  ['4f3f293a36', 'there is a dead letter', 'the test appended records that running services could not read.'],
  [
    '6626bce614',
    'erase-without-replica: erased rows are left',
    'the test expected that `verify` does not count erased events.',
  ],
  ['d71508ae81', 'it did not end within 600 s', 'not known: the services had not started in time.'],
  ['bcce94bb34', 'verify found ', 'the test expected that an ingest with a late clock verifies all events.'],
];

export function reliabilityPage(all: readonly Result[]): string {
  const results = all.filter(({ isUncommitted }) => !isUncommitted);
  const ofLong = results.filter(({ form }) => form === 'long');
  const ofShort = results.filter(({ form }) => form === 'short');
  const uncounted = all.length - results.length;
  const blocks = [
    '# Reliability results',
    `<!-- Generated from ${RESULTS}. To add results, run: npm run test:faults -->`,
    INTRODUCTION,
    ...Object.entries(GROUPS_OF_ROWS).flatMap(([group, rows]) => [
      `## ${group}`,
      ...(group in NOTES ? [NOTES[group]] : []),
      rowsOf(rows, ofLong),
    ]),
    '## Short run',
    shortForm(ofShort),
    ...mutationBlocks(),
    '## Failed runs',
    failures(results),
    '## Environment',
    environments(results),
    ...(uncounted === 0 ? [] : [`This page does not count ${uncounted} runs of uncommitted work.`]),
  ];
  return `${blocks.join('\n\n')}\n`;
}

/** Returns a table of the rows with their passed, required, and failed runs, and the totals of the runs. */
function rowsOf(rows: readonly Row[], results: readonly Result[]): string {
  const cells = rows.map(({ name, does, runs }) => {
    const of = results.filter((result) => result.rows.includes(name));
    const failed = of.filter((result) => hasFailed(name, result)).length;
    const passed = `${of.length - failed}/${runs}`;
    return [`\`${name}\``, does, failed === 0 ? passed : `${passed} (${failed} failed)`];
  });
  const header = ['name', 'fault', 'passed'];
  return `${table(header, cells)}\n\n${totalsOf(rows, results)}`;
}

/** Returns the totals of all runs with one of these rows. The rows of one run share its figures. */
function totalsOf(rows: readonly Row[], results: readonly Result[]): string {
  const of = results.filter((result) => rows.some(({ name }) => result.rows.includes(name)));
  if (of.length === 0) return 'None of these rows has run yet.';
  const stored = `${sum(of, ({ events }) => events)} events, ${sum(of, ({ links }) => links)} links`;
  const longest = Math.max(...of.map(({ drainSeconds }) => drainSeconds));
  return `${of.length} runs: ${stored}, ${sum(of, ({ refused }) => refused)} requests with 503, longest recovery ${longest} s.`;
}

function shortForm(results: readonly Result[]): string {
  const said = '`npm run test:all` injects only faults that take little time.';
  if (results.length === 0) return `${said} This page has no result of this short run yet.`;
  const good = results.filter(({ findings }) => findings.length === 0).length;
  const checked = `${sum(results, ({ events }) => events)} events and ${sum(results, ({ links }) => links)} links`;
  const longest = Math.max(...results.map(({ seconds }) => seconds));
  return `${said} ${good} of ${results.length} short runs passed, with ${checked}, in at most ${Math.round(longest)} s.`;
}

/** Returns a list of the causes, with the number of failed runs. */
function failures(results: readonly Result[]): string {
  const failed = results.filter(({ findings }) => findings.length > 0);
  if (failed.length === 0) return results.length === 0 ? 'No run yet.' : 'No run failed.';
  const causeOf = ({ commit, findings: [first = ''] }: Result): string =>
    CAUSES.find(([of, begins]) => of === commit && first.startsWith(begins))?.[2] ?? 'not found yet';
  const rows = [...Map.groupBy(failed, causeOf)].map(([cause, runs]) => {
    return `${runs.length} failed: ${cause}`;
  });
  return list(rows);
}

/** Returns a list of the machines and sets of versions. */
function environments(results: readonly Result[]): string {
  if (results.length === 0) return 'No run yet.';
  const groups = Map.groupBy(
    results,
    (one) => `${machineOf(one)}, Node ${one.node}, Kafka ${one.kafka}, ClickHouse ${one.clickhouse}`,
  );
  const rows = [...groups].map(([environment, runs]) => {
    const days = runs.map(({ at }) => at.slice(0, 10)).toSorted();
    const hours = runs.reduce((total, { seconds }) => total + seconds, 0) / 3_600;
    return `${environment}: ${runs.length} runs in ${hours.toFixed(1)} hours, ${days[0]} to ${days.at(-1)}`;
  });
  return list(rows);
}

function machineOf({ cpus, memoryGiB, kernel }: Result): string {
  // The text after the version names the kernel's builder.
  return `${cpus} CPUs, ${memoryGiB} GiB, Linux ${kernel.match(/^[\d.]+/)?.[0] ?? ''}`;
}

function sum(results: readonly Result[], of: (result: Result) => number): string {
  return results.reduce((total, result) => total + of(result), 0).toLocaleString('en-US');
}
