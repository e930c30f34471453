/** Builds `docs/evidence/reliability.md` from the result files. */
import { mutationBlocks } from '../../mutation/mutationResults.ts';
import { hasFailed, RESULTS, type Result } from './results.ts';
import type { Row } from './row.ts';
import { GROUPS_OF_ROWS } from './rows.ts';

export const PAGE = 'docs/evidence/reliability.md';

const INTRODUCTION = `[The summary](../reliability.md) has the promises that every run checks. Two processes of each service run on three brokers, a schema
registry, and ClickHouse, at half of the throughput that 12 clients reach. A run injects a fault and then compares every answer with the
tables and topics. The numbers after a row are its passed and required runs.

\`npm run test:faults -- --row NAME --seed N\` repeats a run. Without a seed, the run adds a line to [the results](reliability.jsonl).
\`--missing\` runs the rows that lack passed runs. With \`--together\`, several faults follow each other on one deployment, and a finding counts
for all of them unless it names one.`;

const LATE_COMMIT =
  'most likely a bug, fixed in 684b9de: a late commit set the group back, and its next commit waited for a lookup that waited for the group';

/** The causes of failed runs: the commit of the run, the start of its finding, and the cause. */
const CAUSES: readonly (readonly [commit: string, finding: string, cause: string])[] = [
  [
    '0db0cb22f6',
    'still-ingest: ',
    'a bug, fixed in 9223460: after a stop, timers ran before sockets, and a connection with an unread request was closed as idle',
  ],
  [
    'a75db423ad',
    'a probe was answered 503',
    'the test: an ingest that started after the kill needs ClickHouse for sessions that it has not cached',
  ],
  [
    '1c666a5bfc',
    'not within 120000 ms',
    'most likely a bug, fixed in 276a113: kafkajs never answered a request that was written while its connection closed',
  ],
  ['1c666a5bfc', 'not within 90000 ms', LATE_COMMIT],
  ['3f3d22e92b', 'not within 90000 ms', LATE_COMMIT],
  [
    'bcce94bb34',
    'verify found ',
    'the test: an ingest whose clock is ten minutes behind verifies only up to its own time',
  ],
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
    ...Object.entries(GROUPS_OF_ROWS).flatMap(([group, rows]) => [`## ${group}`, rowsOf(rows, ofLong)]),
    '## Short form',
    shortForm(ofShort),
    ...mutationBlocks(),
    '## Failed runs',
    failures(results),
    '## Environment',
    grounds(results),
    ...(uncounted === 0
      ? []
      : [`${uncounted} runs of uncommitted work are in the results and are not counted here.`]),
  ];
  return `${blocks.join('\n\n')}\n`;
}

/** Returns the rows with their passed, required, and failed runs, and their totals. */
function rowsOf(rows: readonly Row[], results: readonly Result[]): string {
  const lines = rows.map(({ name, does, runs }) => {
    const of = results.filter((result) => result.rows.includes(name));
    const failed = of.filter((result) => hasFailed(name, result)).length;
    return `- \`${name}\` ${of.length - failed}/${runs}${failed === 0 ? '' : `, ${failed} failed`}: ${does}`;
  });
  return `${lines.join('\n')}\n\n${totalsOf(rows, results)}`;
}

/** The totals of all runs with one of these rows. The rows of one deployment share its figures. */
function totalsOf(rows: readonly Row[], results: readonly Result[]): string {
  const of = results.filter((result) => rows.some(({ name }) => result.rows.includes(name)));
  if (of.length === 0) return 'None of these rows has run yet.';
  const totals = [
    `${of.length} deployments`,
    `${sum(of, ({ events }) => events)} events`,
    `${sum(of, ({ links }) => links)} links`,
    `${sum(of, ({ refused }) => refused)} answers of 503`,
  ];
  const longest = Math.max(...of.map(({ drainSeconds }) => drainSeconds));
  return `${totals.join(', ')}. The longest recovery took ${longest} s.`;
}

function shortForm(results: readonly Result[]): string {
  const said = '`npm run test:all` runs the fast rows one after the other on one deployment.';
  if (results.length === 0) return `${said} It has not run for this page yet.`;
  const good = results.filter(({ findings }) => findings.length === 0).length;
  const checked = `${sum(results, ({ events }) => events)} events and ${sum(results, ({ links }) => links)} links`;
  const longest = Math.max(...results.map(({ seconds }) => seconds));
  return `${said} ${good} of ${results.length} runs passed, with ${checked}. The longest took ${Math.round(longest)} s.`;
}

/** Returns one line for each cause, with the date, commit, and seed of each failed run. */
function failures(results: readonly Result[]): string {
  const failed = results.filter(({ findings }) => findings.length > 0);
  if (failed.length === 0) return results.length === 0 ? 'No run yet.' : 'None.';
  const causeOf = ({ commit, findings: [first = ''] }: Result): string =>
    CAUSES.find(([of, begins]) => of === commit && first.startsWith(begins))?.[2] ?? 'not found yet';
  return [...Map.groupBy(failed, causeOf)]
    .map(([cause, runs]) => {
      const which = runs.map(({ at, commit, seed }) => `${at.slice(0, 10)} ${commit}/${seed}`);
      return `- ${which.join(', ')}: ${cause}.`;
    })
    .join('\n');
}

/** Returns one line for each machine and set of versions. */
function grounds(results: readonly Result[]): string {
  if (results.length === 0) return 'No run yet.';
  const groups = Map.groupBy(
    results,
    (one) => `${machineOf(one)}, Node ${one.node}, Kafka ${one.kafka}, ClickHouse ${one.clickhouse}`,
  );
  return [...groups]
    .map(([ground, runs]) => {
      const days = runs.map(({ at }) => at.slice(0, 10)).toSorted();
      const hours = runs.reduce((total, { seconds }) => total + seconds, 0) / 3_600;
      const commits = [...new Set(runs.map(({ commit }) => commit))].join(', ');
      return `- ${ground}: ${runs.length} runs, ${hours.toFixed(1)} h, from ${days[0]} to ${days.at(-1)}, commits ${commits}.`;
    })
    .join('\n');
}

function machineOf({ cpus, memoryGiB, kernel }: Result): string {
  // The text after the version names the kernel's builder.
  return `${cpus} CPUs, ${memoryGiB} GiB, Linux ${kernel.match(/^[\d.]+/)?.[0] ?? ''}`;
}

function sum(results: readonly Result[], of: (result: Result) => number): string {
  return results.reduce((total, result) => total + of(result), 0).toLocaleString('en-US');
}
