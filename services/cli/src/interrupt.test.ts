import { expect, onTestFinished, test, vi } from 'vitest';
import { onInterrupt } from './interrupt.ts';

test('a Ctrl-C that comes twice at once is one, and a second one ends the process', () => {
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
