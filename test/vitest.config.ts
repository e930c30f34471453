/**
 * The tiers of the tests. `npm test` runs `fast`, `engines` and `e2e`: all that needs nothing but npm. `kafka` and
 * `e2e-kafka` need a real Kafka, which starts only when one of their files is to run. `browser` needs a Chromium, and has what is `SLOW` too. `faults` kills things,
 * `abuse` floods them, `bench` measures what an event costs.
 */
import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitest/config';
import { BaseSequencer, type TestSpecification } from 'vitest/node';
import { Slowest } from './slowest.ts';

const KAFKA = '**/*.kafka.test.ts';
const ENGINES = '**/*.int.test.ts';
/** Installs packages of Python's index, which takes most of a minute: beside Kafka, whose tests need Python too. */
const PYTHON = '**/pythonClient.int.test.ts';
/** Compiles C# and C++: where Python and Java are asked for, these may be too. */
const COMPILERS = '**/enginePages.int.test.ts';
/** Each cut waits for mutations of tables. */
const CUTS = '**/{cutLog,incrementalLoads}.int.test.ts';
const E2E = 'test/e2e/*.test.ts';
/** Two Nodes, browsers and six kills, of a client whose unit tests are among the fast: beside Kafka too. */
const CLIENT = ['test/e2e/client.test.ts', 'test/e2e/webGame.test.ts'];
/** Pages are looked at for minutes, in a browser of several processes: behind the README's own command. */
const IN_BROWSER = 'test/e2e/{browser,console*,docs}.test.ts';
/** Each command is a process, and an erasure waits for tables to be written anew: behind the README's own command too. */
const SLOW = 'test/e2e/{backup,commandLine,erasures,sqlCommand}.test.ts';
/** Half a million events with the answers to ten questions; five million events in a reader's memory. */
const MONTH = 'test/dataGuide/{simulatedMonth,largeViews}.test.ts';
/** What breaks the engines of the run. Folders inside break none. */
const FAULTS = 'test/{faults,stack}/*.test.ts';
/** Break what is their own: an engine that is ended, a disk that is full, processes that are refused or killed. */
const OWN_FAULTS = [
  'services/runtime/src/clickhouse/chdb/engineProcess.int.test.ts',
  'test/e2e/{diskFull,process,refusedStart}.test.ts',
];
/** Run a second time among the faults, ten times as long. */
const LONG_RUNS = [
  'test/simulation/*.test.ts',
  'services/ingest/src/events/core/{scanProperties,elementsInOrder}.test.ts',
  'schemas/src/topics/{eventsAccepted,eventsRecord}.test.ts',
];

/** Floods and malformed input against a product of its own: figures of its memory and its answers. With what operators do then. */
const ABUSE = 'test/{abuse,runbooks}/*.test.ts';

/** Costs of this tree beside another server's. */
const BENCH = 'test/bench/path/shortBench.test.ts';

const ENGINES_OF_THE_RUN = './engines/globalSetup.ts';
const PRODUCT_OF_THE_RUN = './e2e/productOfTheRun.ts';
const MIGRATED = './migratedFolder.ts';
/** Set up first, and so torn down last: behind the product of the run. */
const LOGS_OF_THE_RUN = './tokensInLogs.ts';

/** End-to-end files that run a second time, on Kafka: those that something below the ports can break. */
const ON_KAFKA_TOO = [
  'admin',
  'auth',
  'buildsAndPlayers',
  'consoleTail',
  'deadLetters',
  'erasures',
  'eventList',
  'fidelity',
  'idempotency',
  'ingestA',
  'linkedEvents',
  'linkedEvents.example',
  'plugin',
  'quota',
  'reportContent',
  'reportLinks',
  'reports',
  'reportsAgain',
  'reportsAtOnce',
  'reportsRestart',
  'reportsRetracted',
  'reportsRetry',
  'restart',
  'retention',
  'sessionEvents',
  'sessions',
].map((name) => `test/e2e/${name}.test.ts`);

/** Begun last, one of these would run alone at the end. */
const LONGEST_FIRST = [
  'test/faults/brokenStack.',
  'test/upgrade/',
  // Beside upgrades, which start more processes than any other: tests that start none.
  'services/runtime/src/log/kafka/',
  'test/cluster/clickhouseLost.',
  'test/cluster/security.',
  'test/stack/',
  'test/faults/kill.',
  'test/cluster/',
  'test/e2e/refusedStart.',
  'test/e2e/client.',
  'test/e2e/commandLine.',
  'services/runtime/src/clickhouse/chdb/http/pythonClient.',
  'test/e2e/connections.',
  'test/e2e/restart.',
  'services/projector/',
  'services/runtime/src/clickhouse/chdb/',
  'test/e2e/',
];

interface Tier {
  readonly name: string;
  readonly include: readonly string[];
  readonly exclude?: readonly string[];
  readonly globalSetup?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  /** Brokers or browsers run beside: rebalances, ends of sessions and pages take their time. */
  readonly isHeavy?: boolean;
  /** Tiers of one order run side by side, a higher one behind them. */
  readonly order: number;
}

const TIERS: readonly Tier[] = [
  {
    name: 'fast',
    include: ['{schemas,services,test}/**/*.test.ts'],
    exclude: [KAFKA, ENGINES, E2E, FAULTS, ABUSE, MONTH, BENCH],
    order: 0,
  },
  {
    name: 'engines',
    include: [`{services,test}/${ENGINES}`],
    exclude: [PYTHON, COMPILERS, CUTS, ...OWN_FAULTS],
    globalSetup: [MIGRATED],
    order: 0,
  },
  {
    name: 'e2e',
    include: [E2E],
    exclude: [...CLIENT, IN_BROWSER, SLOW, ...OWN_FAULTS],
    globalSetup: [MIGRATED, PRODUCT_OF_THE_RUN],
    order: 0,
  },
  {
    name: 'browser',
    include: [IN_BROWSER, SLOW],
    globalSetup: [MIGRATED, PRODUCT_OF_THE_RUN],
    isHeavy: true,
    order: 1,
  },
  {
    name: 'kafka',
    include: [`{services,test}/${KAFKA}`, `services/${PYTHON}`, `test/${COMPILERS}`],
    exclude: [FAULTS],
    globalSetup: [ENGINES_OF_THE_RUN],
    isHeavy: true,
    order: 1,
  },
  {
    name: 'e2e-kafka',
    include: [...ON_KAFKA_TOO, ...CLIENT],
    globalSetup: [ENGINES_OF_THE_RUN, PRODUCT_OF_THE_RUN],
    isHeavy: true,
    order: 1,
  },
  // Last, since it breaks the brokers that the others stand on.
  {
    name: 'faults',
    include: [FAULTS, `{services,test}/${CUTS}`, ...OWN_FAULTS, ...LONG_RUNS],
    env: { QUESTLOG_TEST_RUNS: 'long' },
    globalSetup: [ENGINES_OF_THE_RUN],
    isHeavy: true,
    order: 2,
  },
  // By itself: a month that is played in two minutes leaves nothing for what must recover in time.
  { name: 'month', include: [MONTH], isHeavy: true, order: 3 },
  // By itself too: memory is measured. `npm run test:abuse` has its long form.
  { name: 'abuse', include: [ABUSE], isHeavy: true, order: 4 },
  // By itself too, on a broker of its own: CPU is measured.
  { name: 'bench', include: [BENCH], isHeavy: true, order: 5 },
];

function projectOf({
  name,
  include,
  exclude = [],
  globalSetup = [],
  env = {},
  isHeavy = false,
  order,
}: Tier) {
  return {
    test: {
      name,
      include: [...include],
      exclude: ['**/node_modules/**', ...exclude],
      env: { ...env },
      globalSetup: [LOGS_OF_THE_RUN, ...globalSetup].map(here),
      setupFiles: name === 'e2e-kafka' ? [here('./engines/workerSetup.ts')] : [],
      // A quarter faster: what many files import is loaded once a worker. These tests keep no state in modules.
      isolate: false,
      testTimeout: isHeavy ? 300_000 : 30_000,
      hookTimeout: isHeavy ? 300_000 : 60_000,
      // By default a second: a machine that stands still for so long would fail what comes in the next moment.
      expect: { poll: { timeout: isHeavy ? 30_000 : 10_000 } },
      // Three keep two cores full. With brokers and browsers that gains little over two; where figures are told it would cost them.
      maxWorkers: order < 3 ? 3 : 2,
      sequence: { groupOrder: order },
    },
  };
}

/** A file that the outcome is written to, as JSON; `.ci/run` counts by it. */
const REPORT = process.env['QUESTLOG_TEST_REPORT'];
const jsonTo = (outputFile: string): ['json', { outputFile: string }] => ['json', { outputFile }];

const here = (path: string): string => fileURLToPath(new URL(path, import.meta.url));

class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const rank = ({ moduleId }: TestSpecification): number => {
      const at = LONGEST_FIRST.findIndex((begin) => moduleId.includes(`/${begin}`));
      return at === -1 ? LONGEST_FIRST.length : at;
    };
    return (await super.sort(files)).sort((a, b) => rank(a) - rank(b));
  }
}

export default defineConfig({
  test: {
    pool: 'forks',
    reporters: ['default', new Slowest(), ...(REPORT === undefined ? [] : [jsonTo(REPORT)])],
    sequence: { sequencer: LongestFirst },
    projects: TIERS.map(projectOf),
  },
});
