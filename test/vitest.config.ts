/**
 * Which files are tests, how long one may take, and which begin first; `npm test` runs them all, two files at a time.
 * The project `kafka` is what needs a real Kafka: its engines start only when one of its files is to run.
 */
import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitest/config';
import { BaseSequencer, type TestSpecification } from 'vitest/node';

/**
 * The folders whose files take longest: begun last, one of them would run alone at the end. The three that break a stack
 * of three brokers of their own (the last one is `brokerKill`) are apart: two at once are more than two cores carry.
 */
const SLOW_FIRST = [
  'test/cluster/brokers.',
  'test/faults/',
  'test/cluster/leaderless.',
  'services/runtime/src/log/kafka/',
  'test/cluster/',
  'services/projector/',
  'test/simulation/',
  'test/e2e/',
];

const KAFKA_SUITES = '**/*.kafka.test.ts';
/** Suites that run a second time, against a product of three processes on Kafka. */
const ON_KAFKA_TOO = ['test/e2e/*.test.ts'];
/** Of the one process with its data folder: there is nothing of it on Kafka. */
const EMBEDDED_ONLY = ['diskFull', 'process', 'refusedStart'].map((name) => `test/e2e/${name}.test.ts`);

const here = (path: string): string => fileURLToPath(new URL(path, import.meta.url));

class SlowFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const rank = ({ moduleId }: TestSpecification): number => {
      const at = SLOW_FIRST.findIndex((begin) => moduleId.includes(`/${begin}`));
      return at === -1 ? SLOW_FIRST.length : at;
    };
    return (await super.sort(files)).sort((a, b) => rank(a) - rank(b));
  }
}

export default defineConfig({
  test: {
    pool: 'forks',
    // A product of its own for many a file: two cores carry two of them, whichever project they are of.
    maxWorkers: 2,
    sequence: { sequencer: SlowFirst },
    projects: [
      {
        test: {
          name: 'embedded',
          include: ['schemas/**/*.test.ts', 'services/**/*.test.ts', 'test/**/*.test.ts'],
          exclude: ['**/node_modules/**', KAFKA_SUITES],
          testTimeout: 30_000,
          hookTimeout: 60_000,
        },
      },
      {
        test: {
          name: 'kafka',
          include: [`{schemas,services,test}/${KAFKA_SUITES}`, ...ON_KAFKA_TOO],
          exclude: ['**/node_modules/**', ...EMBEDDED_ONLY],
          globalSetup: here('./engines/globalSetup.ts'),
          setupFiles: here('./engines/workerSetup.ts'),
          testTimeout: 120_000,
          hookTimeout: 180_000,
        },
      },
    ],
  },
});
