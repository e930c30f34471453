import { expect, test } from 'vitest';
import { createStudioQuota } from './studioQuota.ts';

const SECOND = 1_000;

test('rejects the statements of an account that has used its execution time, until the next hour starts', async () => {
  let now = Date.parse('2026-11-30T10:59:00Z');
  const quota = createStudioQuota(20, () => now);
  const run = (username: string, seconds: number) =>
    quota.run(username, async () => {
      now += seconds * SECOND;
      return 'rows';
    });
  expect(await run('one', 19)).toBe('rows');
  const failing = quota.run('one', async () => {
    now += 2 * SECOND;
    throw new Error('a failed statement also uses execution time');
  });
  await expect(failing).rejects.toThrow('a failed statement');
  await expect(run('one', 1)).rejects.toMatchObject({
    code: 201,
    message:
      'Quota for user `one` for 3600s has been exceeded: execution_time = 21/20. Interval will end at 2026-11-30 11:00:00.',
  });
  expect(await run('two', 1)).toBe('rows');
  now = Date.parse('2026-11-30T11:00:00Z');
  expect(await run('one', 1)).toBe('rows');
});
