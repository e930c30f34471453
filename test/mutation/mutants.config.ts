/** The tests that Stryker runs: what needs no engine, on the sources of Stryker's copy instead of those that are installed. */
import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitest/config';

const here = (path: string): string => fileURLToPath(new URL(path, import.meta.url));

/** The tests of the folders that are judged by their own. */
const ALONE = process.env['QUESTLOG_MUTANT_TESTS'];

export default defineConfig({
  resolve: {
    alias: [
      { find: /^@questlog\/schemas\/fixtures\/(.*)$/, replacement: here('../../schemas/fixtures/$1.ts') },
      { find: /^@questlog\/schemas\/(.*)$/, replacement: here('../../schemas/src/$1.ts') },
      { find: /^@questlog\/(\w+)\/(.*)$/, replacement: here('../../services/$1/src/$2.ts') },
    ],
  },
  test: {
    include: ALONE?.split(',') ?? ['{schemas,services}/**/*.test.ts', 'test/simulation/*.test.ts'],
    exclude: ['**/node_modules/**', '**/*.kafka.test.ts', '**/*.int.test.ts'],
    env: { QUESTLOG_TEST_RUNS: 'mutants' },
    pool: 'forks',
    // The first run, without a mutant, decides nothing by its time; mutants have Stryker's own limit.
    testTimeout: 300_000,
  },
});
