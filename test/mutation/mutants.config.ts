/** Vitest configuration for Stryker: tests without an engine, on the sources in Stryker's copy instead of the installed packages. */
import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitest/config';

const here = (path: string): string => fileURLToPath(new URL(path, import.meta.url));

/** Test files of a run with `--alone`, separated by commas. */
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
    // Limits only the first run, which has no mutant. Stryker limits the runs with a mutant.
    testTimeout: 300_000,
  },
});
