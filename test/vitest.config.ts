/**
 * Defines the tiers of the tests. `npm test` runs `fast`, `engines`, and `e2e`, which need only npm packages. `kafka` and
 * `e2e-kafka` need a real Kafka, which starts only if one of their files runs. `e2e-cluster` and `clickhouse-cluster` also need a
 * ClickHouse cluster. `browser` needs Chromium and includes the files of `SLOW`. `languages` needs compilers and Python. `faults`
 * kills processes, `abuse` sends malformed input, `overload` sends floods, and `bench` measures the cost of an event.
 */
import { tmpdir } from 'node:os';
import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitest/config';
import { BaseSequencer, type TestSpecification } from 'vitest/node';
import { RunSummary } from './runSummary.ts';
import { folderInMemory } from './temporaryFolder.ts';
import { TierEnds } from './tierEnds.ts';

const KAFKA = '**/*.kafka.test.ts';
const ENGINES = '**/*.int.test.ts';
/** Compile C#, C++, Go, and Java, or install Python packages. */
const LANGUAGES = '**/{enginePages,dataClients,toolsPage,pythonClient,exportReaders}.int.test.ts';
/** Files that wait for mutations of tables. */
const MUTATIONS = '**/{eraseRows,incrementalLoads,playerSessions,truncatedLog}.int.test.ts';
const E2E = 'test/e2e/*.test.ts';
/** Starts two versions of Node and browsers, and kills the client six times. The client's unit tests are in `fast`. */
const CLIENT = ['test/e2e/client.test.ts', 'test/e2e/webGame.test.ts'];
/** Reads pages in a browser for minutes, so `npm test` does not include it. */
const IN_BROWSER = 'test/e2e/{browser,console*,docs}.test.ts';
/** Start a process per command, install npm packages, or run Prometheus or helm. `npm test` does not include these files. */
const SLOW =
  'test/{e2e/{backup,commandLine,generatedClients,sqlCommand},monitoring/*,helm/{chart,schemas,values}}.test.ts';
/**
 * Files that change tables, or wait until tables are rewritten. They run on Kafka only. On the embedded log, `erasureKill` and
 * the other `deadLetters` tests test the same behavior.
 */
const ONLY_ON_KAFKA = 'test/e2e/{deadLetters,erasures}.test.ts';
/** Ten simulated days with the answers to the guide's questions, and five million events in a reader's memory. */
const MONTH = 'test/dataGuide/{simulatedMonth,largeViews}.test.ts';
/** Breaks the shared engines of the run. Files in subfolders do not. */
const FAULTS = 'test/{faults,stack}/*.test.ts';
/** Break only their own processes and disks: lost offsets, killed engines, full disks, and rejected or killed processes. */
const OWN_FAULTS = [
  'services/projector/src/lostOffsets.int.test.ts',
  'services/runtime/src/clickhouse/chdb/{engineProcess,engine/durability}.int.test.ts',
  'test/e2e/{diskFull,process,refusedStart}.test.ts',
];
/** Run a second time in `faults`, ten times as long. */
const LONG_RUNS = [
  'test/simulation/*.test.ts',
  'services/ingest/src/events/core/{scanProperties,elementsInOrder}.test.ts',
];

/** Floods and malformed input against a separate product. */
const ABUSE = 'test/abuse/*.test.ts';
/** Attacks whose tests measure memory and latency. */
const MEASURED_ABUSE = 'test/abuse/{bombs,floods}.test.ts';
/** Start a ClickHouse cluster of four nodes. */
const CLICKHOUSE_CLUSTER = 'test/clickhouseCluster/*.test.ts';
/** Builds and starts a control plane of Kubernetes. */
const KUBERNETES = 'test/helm/cluster/*.test.ts';
const RUNBOOKS = 'test/runbooks/runbooks.test.ts';

/** Compares the cost of this tree with the cost of another server. */
const BENCH = 'test/bench/path/shortBench.test.ts';

const ENGINES_OF_THE_RUN = './engines/globalSetup.ts';
const CLUSTER_OF_THE_TIER = './clickhouseCluster/clusterOfTheTier.ts';
const PRODUCT_OF_THE_RUN = './e2e/productOfTheRun.ts';
const MIGRATED = './migratedFolder.ts';
/** Set up first and therefore torn down last, after the product of the run. */
const LOGS_OF_THE_RUN = './tokensInLogs.ts';

/**
 * End-to-end files that run a second time on Kafka. The contract suite of the log and `test/cluster` test the rest of the Kafka
 * adapter.
 */
const ON_KAFKA_TOO = 'test/e2e/{idempotency,restart}.test.ts';

/**
 * End-to-end files that run again on a ClickHouse cluster, because they read rows of the projector and the linker. All share one
 * deployment, because a cluster needs about 20 s to create the tables.
 */
const ON_CLUSTER_TOO =
  'test/e2e/{buildsAndPlayers,eventList,fidelity,follow,idempotency,lenient,linkedEvents.example,quota,report*,sequence,sessionEvents,sessions,sqlPrompt,tail}.test.ts';

/** Start first, because a long file that starts last would run alone at the end. */
const LONGEST_FIRST = [
  // Only these files use the deployment on Kafka that all files of the tier `e2e-kafka` share. It ends after the last one. All files
  // of the tier `e2e-cluster` are the first, for the same reason.
  'test/e2e/client.',
  'test/e2e/deadLetters.',
  'test/e2e/erasures.',
  'test/e2e/restart.',
  'test/e2e/webGame.',
  'test/e2e/idempotency.',
  'test/faults/brokenStack.',
  'test/dataGuide/simulatedMonth.',
  'test/games/enginePages.',
  'test/simulation/',
  'test/abuse/schemathesis.',
  'test/dataClients/',
  'test/dataGuide/largeViews.',
  // The tiers `kafka` and `browser`. Files that mostly wait alternate with files that use much CPU time, because a core is idle
  // while all workers wait.
  'test/cluster/alerts.',
  'test/upgrade/rollingUpgrade.',
  'test/e2e/console.',
  'test/cluster/clickhouseLost.',
  'test/e2e/consoleLayout.',
  'test/e2e/consoleReports.',
  'test/cluster/otherTools.',
  'test/faults/proxy/networkFaults.',
  'test/cluster/truncatedLog.',
  'test/upgrade/',
  'services/runtime/src/log/kafka/kafkaLog.contract.',
  'test/cluster/workers.',
  'services/runtime/src/log/kafka/client/',
  'test/cluster/pluginKills.',
  'services/runtime/src/log/kafka/kafkaTruncation.',
  'test/cluster/hotTenant.',
  'services/runtime/src/log/kafka/kafkaLog.',
  'test/cluster/quota.',
  'services/runtime/src/log/kafka/group/',
  'test/cluster/security.',
  'services/runtime/src/log/kafka/read/',
  'test/cluster/verify.',
  'services/runtime/src/log/kafka/',
  'test/cluster/',
  'test/helm/pods.',
  'services/runtime/src/registry/',
  'services/ingest/src/uploads/s3Store.',
  'services/linker/src/rerouteReports.',
  // Mostly waits, and therefore runs at the same time as the tier `browser`, which uses much CPU time.
  'test/clickhouseCluster/',
  'test/monitoring/firingAlerts.',
  'test/stack/',
  'test/runbooks/',
  'test/abuse/regexes.',
  'test/faults/',
  'test/e2e/refusedStart.',
  'test/e2e/process.',
  'test/e2e/diskFull.',
  'test/dataGuide/incrementalLoads.',
  'test/monitoring/',
  'test/e2e/commandLine.',
  'test/e2e/connections.',
  // Parses all sources and stores the result for the other files of `test/tidy`.
  'test/tidy/imports.',
  'services/projector/',
  'services/runtime/src/clickhouse/chdb/',
  'test/e2e/',
];

/** For tests that measure CPU time or latency, and for tests that kill processes or fill disks. */
const ON_DISK = { TMPDIR: tmpdir() };
process.env['TMPDIR'] = folderInMemory();

interface Tier {
  readonly name: string;
  readonly include: readonly string[];
  readonly exclude?: readonly string[];
  readonly globalSetup?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  /** True if brokers or browsers run too: rebalances, session timeouts, and pages need more time. */
  readonly isHeavy?: boolean;
  /** Tiers of the same order run in parallel; tiers of a higher order run after them. */
  readonly order: number;
}

/**
 * Number of workers by the order of a tier, for two cores. Tests of orders 0 to 2 often wait for other processes, least of all
 * tests of order 0. More workers would distort the measurements of orders 3 and 4.
 */
const WORKERS: readonly number[] = [3, 4, 4, 2, 2];

const TIERS: readonly Tier[] = [
  {
    name: 'fast',
    include: ['{schemas,services,test}/**/*.test.ts'],
    exclude: [
      KAFKA,
      ENGINES,
      E2E,
      SLOW,
      FAULTS,
      ABUSE,
      RUNBOOKS,
      MONTH,
      BENCH,
      CLICKHOUSE_CLUSTER,
      KUBERNETES,
    ],
    order: 0,
  },
  {
    name: 'engines',
    include: [`{services,test}/${ENGINES}`],
    exclude: [LANGUAGES, MUTATIONS, ...OWN_FAULTS],
    globalSetup: [MIGRATED],
    order: 0,
  },
  {
    name: 'e2e',
    include: [E2E],
    exclude: [...CLIENT, IN_BROWSER, SLOW, ONLY_ON_KAFKA, ...OWN_FAULTS],
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
    include: [`{services,test}/${KAFKA}`],
    exclude: [FAULTS],
    globalSetup: [ENGINES_OF_THE_RUN],
    isHeavy: true,
    order: 1,
  },
  {
    name: 'e2e-kafka',
    include: [ON_KAFKA_TOO, ONLY_ON_KAFKA, ...CLIENT],
    globalSetup: [ENGINES_OF_THE_RUN, PRODUCT_OF_THE_RUN],
    isHeavy: true,
    order: 1,
  },
  {
    name: 'e2e-cluster',
    include: [ON_CLUSTER_TOO],
    globalSetup: [ENGINES_OF_THE_RUN, CLUSTER_OF_THE_TIER, PRODUCT_OF_THE_RUN],
    isHeavy: true,
    order: 1,
  },
  {
    name: 'clickhouse-cluster',
    include: [CLICKHOUSE_CLUSTER],
    globalSetup: [ENGINES_OF_THE_RUN],
    isHeavy: true,
    order: 1,
  },
  // Runs after the tiers that use the shared brokers, because it breaks them.
  {
    name: 'faults',
    include: [FAULTS, RUNBOOKS, `{services,test}/${MUTATIONS}`, ...OWN_FAULTS, ...LONG_RUNS],
    env: { ...ON_DISK, QUESTLOG_TEST_RUNS: 'long' },
    globalSetup: [ENGINES_OF_THE_RUN, MIGRATED],
    isHeavy: true,
    order: 2,
  },
  // The tiers from here to `abuse` use much CPU time. They run in parallel with `faults`, which often waits for killed processes.
  {
    name: 'languages',
    include: [`{services,test}/${LANGUAGES}`],
    globalSetup: [MIGRATED],
    isHeavy: true,
    order: 2,
  },
  { name: 'month', include: [MONTH], globalSetup: [MIGRATED], isHeavy: true, order: 2 },
  // `npm run test:abuse` runs the long form of the attacks.
  {
    name: 'abuse',
    include: [ABUSE],
    exclude: [MEASURED_ABUSE],
    globalSetup: [MIGRATED],
    isHeavy: true,
    order: 2,
  },
  // Runs alone, because it measures memory and latency.
  {
    name: 'overload',
    include: [MEASURED_ABUSE],
    env: ON_DISK,
    globalSetup: [MIGRATED],
    isHeavy: true,
    order: 3,
  },
  // Runs alone, because it starts two dozen processes. `npm run test:kubernetes` builds the control plane.
  { name: 'kubernetes', include: [KUBERNETES], globalSetup: [ENGINES_OF_THE_RUN], isHeavy: true, order: 3 },
  // Runs alone on its own broker, because it measures CPU.
  { name: 'bench', include: [BENCH], env: ON_DISK, isHeavy: true, order: 4 },
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
      setupFiles: ['e2e-kafka', 'e2e-cluster'].includes(name) ? [here('./engines/workerSetup.ts')] : [],
      // A quarter faster, because a worker loads shared modules once. Test files also share module state (`sharedEngine.ts`).
      isolate: false,
      // Saves a quarter of the CPU time of the fast tests, because Node loads the sources itself and caches the compiled code.
      experimental: { viteModuleRunner: false },
      testTimeout: isHeavy ? 300_000 : 30_000,
      hookTimeout: isHeavy ? 300_000 : 60_000,
      // The default of one second fails if the machine stalls for a second.
      expect: { poll: { timeout: isHeavy ? 30_000 : 10_000 } },
      maxWorkers: WORKERS[order] ?? 2,
      sequence: { groupOrder: order },
    },
  };
}

/** JSON file for the results; `.ci/run` counts the tests in it. */
const REPORT = process.env['QUESTLOG_TEST_REPORT'];
const jsonTo = (outputFile: string): ['json', { outputFile: string }] => ['json', { outputFile }];

const here = (path: string): string => fileURLToPath(new URL(path, import.meta.url));

class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const rank = ({ moduleId, project }: TestSpecification): number => {
      const isOnCluster = project.name === 'e2e-cluster';
      const at = LONGEST_FIRST.findIndex((begin) => isOnCluster || moduleId.includes(`/${begin}`));
      return at === -1 ? LONGEST_FIRST.length : at;
    };
    return (await super.sort(files)).sort((a, b) => rank(a) - rank(b));
  }
}

export default defineConfig({
  test: {
    pool: 'forks',
    reporters: [
      'default',
      new RunSummary(),
      new TierEnds(),
      ...(REPORT === undefined ? [] : [jsonTo(REPORT)]),
    ],
    sequence: { sequencer: LongestFirst },
    projects: TIERS.map(projectOf),
  },
});
