/** Fails a test with one line per violation. */

/** @param violations lines `file:line: problem`. @throws Error that lists all violations, if there are any. */
export function expectNone(violations: readonly string[]): void {
  if (violations.length === 0) return;
  const failure = new Error(`\n  ${violations.join('\n  ')}\n`);
  Error.captureStackTrace(failure, expectNone);
  throw failure;
}
