/** The failure of a rule of the house: one line for each place that breaks it. */

/** @param violations each `file:line: the rule it breaks`. @throws where there is one, naming all. */
export function expectNone(violations: readonly string[]): void {
  if (violations.length === 0) return;
  const failure = new Error(`\n  ${violations.join('\n  ')}\n`);
  Error.captureStackTrace(failure, expectNone);
  throw failure;
}
