/** Tests that a reader that shares a request to the brokers sees all records that were acknowledged before its call. */
import { expect, test } from 'vitest';
import { coalesceCalls } from './waiting.ts';

test('callers during a run share the next run', async () => {
  const { ask, rounds } = manual();
  const first = ask();
  await expect.poll(() => rounds.length).toBe(1);
  const later = [ask(), ask(), ask()];
  rounds[0]?.resolve('before the append');
  expect(await first).toBe('before the append');
  await expect.poll(() => rounds.length).toBe(2);
  rounds[1]?.resolve('after the append');
  expect(await Promise.all(later)).toEqual(['after the append', 'after the append', 'after the append']);
  expect(rounds).toHaveLength(2);
});

test('never runs two at once, even if a caller arrives as one ends', async () => {
  let running = 0;
  let most = 0;
  let rounds = 0;
  const ask = coalesceCalls(async () => {
    running += 1;
    rounds += 1;
    most = Math.max(most, running);
    await new Promise(setImmediate);
    running -= 1;
    return rounds;
  });
  const reader = async (): Promise<void> => {
    for (let calls = 0; calls < 20; calls += 1) {
      const startedRuns = rounds;
      // The call must not get the result of a run that started before the call.
      expect(await ask()).toBeGreaterThan(startedRuns);
    }
  };
  await Promise.all([reader(), reader(), reader().then(reader)]);
  expect(most).toBe(1);
});

test('simultaneous calls share one run, and the next call starts another', async () => {
  const { ask, rounds } = manual();
  const [one, other] = [ask(), ask()];
  await expect.poll(() => rounds.length).toBe(1);
  rounds[0]?.resolve('first');
  expect(await Promise.all([one, other])).toEqual(['first', 'first']);
  const next = ask();
  await expect.poll(() => rounds.length).toBe(2);
  rounds[1]?.resolve('second');
  expect(await next).toBe('second');
});

test('a failed run fails only its own callers', async () => {
  const { ask, rounds } = manual();
  const failing = ask();
  await expect.poll(() => rounds.length).toBe(1);
  const next = ask();
  rounds[0]?.reject(new Error('the leader moves'));
  await expect(failing).rejects.toThrow('the leader moves');
  await expect.poll(() => rounds.length).toBe(2);
  rounds[1]?.resolve('well');
  expect(await next).toBe('well');
});

/** Returns work whose runs end when the test decides. */
function manual() {
  const rounds: PromiseWithResolvers<string>[] = [];
  const ask = coalesceCalls(() => {
    const round = Promise.withResolvers<string>();
    rounds.push(round);
    return round.promise;
  });
  return { ask, rounds };
}
