/** Which files are tests, and how long one may take; `npm test` runs them all, one file after the other. */
import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['schemas/**/*.test.ts', 'services/**/*.test.ts', 'test/**/*.test.ts'],
    testTimeout: 30_000,
    hookTimeout: 60_000,
    pool: 'forks',
    // A product of its own for many a file: two cores carry two of them.
    maxWorkers: 2,
  },
});
