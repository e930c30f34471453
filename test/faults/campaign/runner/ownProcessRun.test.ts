import { expect, test } from 'vitest';
import { runInOwnProcess, type ToTry } from './ownProcessRun.ts';

/** Unknown row, which aborts the run. */
const UNKNOWN: ToTry = {
  engines: { brokers: '', registryUrl: '', clickhouseUrl: '' },
  dataDir: '/nonexistent',
  rows: ['no-such-row'],
  seed: 1,
  isShort: true,
};

test('reports an aborted run as failed with its cause', async () => {
  const { findings } = await runInOwnProcess(UNKNOWN, 60_000, () => {});
  expect(findings).toEqual([expect.stringMatching(/^it broke off: there is no row no-such-row/)]);
});

test('kills a run that exceeds its time limit, and reports it as failed', async () => {
  const { findings } = await runInOwnProcess(UNKNOWN, 1, () => {});
  expect(findings).toEqual(['it did not end within 0.001 s; the last of it: it was started']);
});
