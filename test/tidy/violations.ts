/** How a rule of the house fails: one line for each place that breaks it, so that the failure is the list of what to mend. */
import { expect } from 'vitest';

/** @param violations each `file:line: the rule it breaks`. */
export function expectNone(violations: readonly string[]): void {
  expect(violations.length, `\n${violations.join('\n')}\n`).toBe(0);
}
