/**
 * A folder of the embedded ClickHouse with the product's tables and nothing in them, made once a run: migrations are a third
 * of what a start on an empty folder computes, and most of what it waits for.
 */
import { cpSync } from 'node:fs';

/** Its path, in the environment of the tests. */
export const MIGRATED_FOLDER = 'QUESTLOG_TEST_MIGRATED_FOLDER';

/** Before an engine starts on it. Where the run has made none, nothing is done: the start migrates. */
export function fillWithTables(directory: string): void {
  const made = process.env[MIGRATED_FOLDER];
  if (made !== undefined) cpSync(made, directory, { recursive: true, verbatimSymlinks: true });
}
