/** `docs/evidence/reliability.md`, made from the result files: nothing on it is typed. */
import { mutationBlocks } from '../../mutation/mutationResults.ts';
import { argumentsOf, hasFailed, RESULTS, type Result } from './results.ts';
import { PEAK, type Row } from './row.ts';
import { GROUPS_OF_ROWS } from './rows.ts';

export const PAGE = 'docs/evidence/reliability.md';

const INTRODUCTION = `Two processes of each service run on three brokers, a schema registry and a ClickHouse. Games play and file reports, at half of
the peak of the machine: of what 12 clients reach that each ask again as soon as they are answered, a closed loop. Then something breaks. Afterwards every answer that was given is held against the tables and the
topics, by the requests themselves. A run is good if

- 0 acknowledged events, sessions and reports are lost, and 0 are visible twice, to the payload’s byte and in the order of each session;
- 0 rows are under another tenant, project or session than they were sent for;
- every rollup is what a recount of the rows gives;
- the links of each report are those of a join by force, and the stream told each of them once;
- \`questlog verify\` finds no difference, and no process has logged a bug or written a dead letter;
- everything was processed again within 60 s of the end of the fault, and games were at worst told to come again.

\`npm run test:faults -- --row NAME --seed N\` repeats a run; without a seed it draws one and adds a line to
[the result file](reliability.jsonl). \`--list\` names the rows, \`--missing\` runs those that lack good runs.
With \`--together\` several rows in turn break one deployment; what it finds then counts for each of them, unless it names one.`;

const LATE_COMMIT =
  'most likely a bug, mended in 684b9de: a commit of unknown outcome came late, behind newer ones, and the group stood at it until its next commit, which waited for links that waited for it';

/** What failed, by its commit and how its finding begins: the cause, and what was done. */
const CAUSES: readonly (readonly [commit: string, finding: string, cause: string])[] = [
  [
    '0db0cb22f6',
    'still-ingest: ',
    'a bug, mended in 9223460: when a process goes on, its timers come before its sockets, and a connection that looked idle was closed over a request that waited in it',
  ],
  [
    'a75db423ad',
    'a probe was answered 503',
    'the row: an ingest that had started behind the kill asks ClickHouse for sessions that it has not seen, as production.md says; it sees them before now',
  ],
  [
    '1c666a5bfc',
    'not within 120000 ms',
    'most likely a bug, mended in 276a113: kafkajs left a request without an answer for ever that was written as its connection to a silent broker closed',
  ],
  ['1c666a5bfc', 'not within 90000 ms', LATE_COMMIT],
  ['3f3d22e92b', 'not within 90000 ms', LATE_COMMIT],
  [
    'bcce94bb34',
    'verify found ',
    'the row: the ingest whose clock is ten minutes behind verifies up to its own now; each ingest is asked',
  ],
];

export function reliabilityPage(all: readonly Result[]): string {
  const results = all.filter(({ isUncommitted }) => !isUncommitted);
  const ofLong = results.filter(({ form }) => form === 'long');
  const ofShort = results.filter(({ form }) => form === 'short');
  const uncounted = all.length - results.length;
  const blocks = [
    '# Reliability',
    `<!-- Generated from ${RESULTS}. To add to it, run: npm run test:faults -->`,
    INTRODUCTION,
    ...Object.entries(GROUPS_OF_ROWS).flatMap(([group, rows]) => [`## ${group}`, tableOf(rows, ofLong)]),
    '## The short form',
    shortForm(ofShort),
    ...mutationBlocks(),
    '## What failed',
    failures(results),
    '## Where it ran',
    grounds(results),
    ...(uncounted === 0
      ? []
      : [`${uncounted} runs of uncommitted work are in the file and count nowhere here.`]),
  ];
  return `${blocks.join('\n\n')}\n`;
}

function tableOf(rows: readonly Row[], results: readonly Result[]): string {
  const lines = rows.map(({ name, does, runs }) => {
    const of = results.filter((result) => result.rows.includes(name));
    const failed = of.filter((result) => hasFailed(name, result)).length;
    const good = of.length - failed;
    return `| \`${name}\` | ${does} | ${good} good of ${runs} | ${of.length === 0 ? '–' : failed} |`;
  });
  const head = ['| row | what happens | runs | failed |', '| --- | --- | --: | --: |'];
  return `${[...head, ...lines].join('\n')}\n\n${figuresOf(rows, results)}`;
}

/** A line for each set of rows that had deployments of their own: of a chain, no figure is one row's alone. */
function figuresOf(rows: readonly Row[], results: readonly Result[]): string {
  const ofThese = results.filter((result) => rows.some(({ name }) => result.rows.includes(name)));
  const lines = [...Map.groupBy(ofThese, (result) => result.rows.join(', '))].map(([names, of]) => {
    const figures = [
      `${Math.max(...of.map(({ drainSeconds }) => drainSeconds))} s`,
      sum(of, ({ events }) => events),
      sum(of, ({ links }) => links),
      sum(of, ({ refused }) => refused),
      counts(of),
    ];
    const isChain = (of[0]?.rows.length ?? 0) > 1;
    return `| ${[isChain ? `in turn: ${names}` : `\`${names}\``, of.length, ...figures].join(' | ')} |`;
  });
  const head = [
    '| on one deployment | deployments | longest drain | events | links | 503s | planted and caught |',
    '| --- | --: | --: | --: | --: | --: | --- |',
  ];
  return [...head, ...lines].join('\n');
}

function shortForm(results: readonly Result[]): string {
  const said = 'In `npm run test:all` rows that take seconds run one after the other on one deployment.';
  if (results.length === 0) return `${said} It was not run for this page yet.`;
  const good = results.filter(({ findings }) => findings.length === 0).length;
  const checked = `${sum(results, ({ events }) => events)} events and ${sum(results, ({ links }) => links)} links checked`;
  const longest = Math.max(...results.map(({ seconds }) => seconds));
  return `${said} For this page it ran ${results.length} times, ${good} of them without a finding: ${checked}, the longest in ${Math.round(longest)} s.`;
}

function failures(results: readonly Result[]): string {
  const failed = results.filter(({ findings }) => findings.length > 0);
  if (failed.length === 0) return results.length === 0 ? 'Nothing was run yet.' : 'Nothing.';
  return failed
    .map((result) => {
      const { commit, at, findings } = result;
      const [first = '', ...others] = findings;
      const more = others.length === 0 ? '' : ` (and ${others.length} more)`;
      const [, , cause = 'not found yet'] =
        CAUSES.find(([of, begins]) => of === commit && first.startsWith(begins)) ?? [];
      return `- ${at.slice(0, 10)}, ${commit}, \`${argumentsOf(result)}\`: ${inOneLine(first)}${more}. Cause: ${cause}.`;
    })
    .join('\n');
}

function grounds(results: readonly Result[]): string {
  if (results.length === 0) return 'Nowhere yet.';
  const groups = Map.groupBy(results, (one) =>
    [one.commit, machineOf(one), `${one.node} | ${one.kafka} | ${one.clickhouse}`].join(' | '),
  );
  const lines = [...groups].map(([ground, those]) => {
    const days = those.map(({ at }) => at.slice(0, 10)).toSorted();
    const [first, last] = [days[0], days.at(-1)];
    const hours = those.reduce((total, { seconds }) => total + seconds, 0) / 3_600;
    return `| ${first === last ? first : `${first} to ${last}`} | ${ground} | ${those.length} | ${hours.toFixed(1)} h |`;
  });
  return [
    '| date | commit | machine | Node | Kafka | ClickHouse | runs | time |',
    '| --- | --- | --- | --- | --- | --- | --: | --: |',
    ...lines,
  ].join('\n');
}

function machineOf({ cpus, memoryGiB, kernel }: Result): string {
  // Behind the version stands what its builder calls it.
  return `${cpus} CPUs, ${memoryGiB} GiB, Linux ${kernel.match(/^[\d.]+/)?.[0] ?? ''}`;
}

function counts(results: readonly Result[]): string {
  const names = new Set(results.flatMap((one) => Object.keys(one.counts)));
  return [...names]
    .map(
      (name) => `${name}: ${name === PEAK ? range(results) : sum(results, (one) => one.counts[name] ?? 0)}`,
    )
    .join(', ');
}

/** A rate is no sum. */
function range(results: readonly Result[]): string {
  const peaks = results.flatMap(({ counts: { [PEAK]: peak } }) => peak ?? []);
  return `${Math.min(...peaks)} to ${Math.max(...peaks)}`;
}

function sum(results: readonly Result[], of: (result: Result) => number): string {
  return results.reduce((total, result) => total + of(result), 0).toLocaleString('en-US');
}

function inOneLine(text: string): string {
  return text.replaceAll(/\s+/g, ' ').replaceAll(/[|<>]/g, ' ').slice(0, 300);
}
