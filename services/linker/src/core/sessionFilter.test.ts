import { createHash } from 'node:crypto';
import { uuidV8 } from '@questlog/schemas/uuid';
import { expect, test } from 'vitest';
import { SessionFilter, SessionsWithReports } from './sessionFilter.ts';

/** Number of ids. It is small for the mutation tests, because they run this test for each mutant. */
const MANY = process.env['QUESTLOG_TEST_RUNS'] === 'mutants' ? 20_000 : 200_000;
const idOf = (n: number): string => uuidV8(createHash('sha256').update(String(n)).digest());

test('never excludes a session with a report', () => {
  const filter = new SessionFilter(MANY);
  for (let n = 0; n < MANY / 4; n++) filter.add(idOf(n));
  for (let n = 0; n < MANY / 4; n++) if (!filter.mayContain(idOf(n))) expect.fail(`session ${n}`);
});

test('has few false positives, also for consecutive ids', () => {
  const filter = new SessionFilter(MANY);
  const counted = (n: number): string => `00000000-0000-4000-8000-${n.toString(16).padStart(12, '0')}`;
  for (let n = 0; n < MANY; n++) filter.add(counted(n));
  let wrong = 0;
  for (let n = MANY; n < 1.5 * MANY; n++) if (filter.mayContain(counted(n))) wrong++;
  expect(wrong).toBeLessThan(MANY / 200);
});

test('until a partition has loaded all sessions, every session may have a report, independent of other partitions', () => {
  const filter = new SessionFilter(MANY);
  const [learned, learning] = [new SessionsWithReports(filter), new SessionsWithReports(filter)];
  learned.complete();
  learning.add(idOf(1));
  expect([1, 2].map((n) => [learned.mayContain(idOf(n)), learning.mayContain(idOf(n))])).toEqual([
    [true, true],
    [false, true],
  ]);
});
