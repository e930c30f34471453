import { expect, test } from 'vitest';
import { runInOwnProcess, type ToTry } from './ownProcessRun.ts';

/** A row that it does not know breaks the run. */
const UNKNOWN: ToTry = {
  engines: { brokers: '', registryUrl: '', clickhouseUrl: '' },
  dataDir: '/nonexistent',
  rows: ['no-such-row'],
  seed: 1,
  isShort: true,
};

test('a run that breaks off has failed, and says by what', async () => {
  const { findings } = await runInOwnProcess(UNKNOWN, 60_000, () => {});
  expect(findings).toEqual([expect.stringMatching(/^it broke off: there is no row no-such-row/)]);
});

test('a run that does not end is ended, and has failed', async () => {
  const { findings } = await runInOwnProcess(UNKNOWN, 1, () => {});
  expect(findings).toEqual(['it did not end within 0.001 s; the last of it: it was started']);
});
