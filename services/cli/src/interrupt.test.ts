import { expect, onTestFinished, test, vi } from 'vitest';
import { onInterrupt } from './interrupt.ts';

test('treats two signals at the same time as one Ctrl-C, and exits on a second Ctrl-C', () => {
  const before = process.listeners('SIGINT');
  vi.useFakeTimers({ toFake: ['performance'] });
  const exit = vi.spyOn(process, 'exit').mockReturnValue(undefined as never);
  onTestFinished(() => {
    vi.useRealTimers();
    vi.restoreAllMocks();
    for (const listener of process.listeners('SIGINT')) {
      if (!before.includes(listener)) process.off('SIGINT', listener);
    }
  });
  const stop = vi.fn();
  onInterrupt(stop);

  for (const _ of ['terminal', 'launcher']) process.emit('SIGINT');
  expect([stop.mock.calls.length, exit.mock.calls]).toEqual([1, []]);

  vi.advanceTimersByTime(600);
  process.emit('SIGINT');
  expect([stop.mock.calls.length, exit.mock.calls]).toEqual([1, [[130]]]);
});
