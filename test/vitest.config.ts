/** Which files are tests, how long one may take, and which begin first; `npm test` runs them all, two files at a time. */
import { defineConfig } from 'vitest/config';
import { BaseSequencer, type TestSpecification } from 'vitest/node';

/** The folders whose files take longest: begun last, one of them would run alone at the end. */
const SLOW_FIRST = ['test/faults/', 'services/projector/', 'test/simulation/', 'test/e2e/'];

class SlowFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const rank = ({ moduleId }: TestSpecification): number => {
      const at = SLOW_FIRST.findIndex((folder) => moduleId.includes(`/${folder}`));
      return at === -1 ? SLOW_FIRST.length : at;
    };
    return (await super.sort(files)).sort((a, b) => rank(a) - rank(b));
  }
}

export default defineConfig({
  test: {
    include: ['schemas/**/*.test.ts', 'services/**/*.test.ts', 'test/**/*.test.ts'],
    testTimeout: 30_000,
    hookTimeout: 60_000,
    pool: 'forks',
    // A product of its own for many a file: two cores carry two of them.
    maxWorkers: 2,
    sequence: { sequencer: SlowFirst },
  },
});
