import { expect, test } from 'vitest';
import type { Outcome } from '../tryRows.ts';
import { runInOwnProcess, type ToTry } from './ownProcessRun.ts';

/** Unknown row, which aborts the run. */
const UNKNOWN: ToTry = {
  engines: { brokers: '', registryUrl: '', clickhouseUrl: '' },
  dataDir: '/nonexistent',
  runs: [{ rows: ['no-such-row'], seed: 1 }],
  isShort: true,
};

test('reports an aborted run as failed with its cause', async () => {
  expect(await findingsOf(60_000)).toEqual([
    expect.stringMatching(/^it broke off: there is no row no-such-row/),
  ]);
});

test('kills a run that exceeds its time limit, and reports it as failed', async () => {
  expect(await findingsOf(1)).toEqual(['it did not end within 0.001 s; the last of it: it was started']);
});

/** Returns the findings of the aborted run. */
async function findingsOf(withinMs: number): Promise<string[]> {
  const findings: string[] = [];
  const report = (outcome: Outcome) => findings.push(...outcome.findings);
  await runInOwnProcess(UNKNOWN, withinMs, { say: () => {}, report });
  return findings;
}
