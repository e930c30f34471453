/** Tests that a start does not wait long for a node that does not answer the check of row policies. */
import { expect, onTestFinished, test, vi } from 'vitest';
import type { Store } from '../store.ts';
import { requireVisibleRows } from './visibleRows.ts';

test('the check of row policies does not wait longer than 10 s for a node', async () => {
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
  const close = vi.fn();
  const silent = { query: () => new Promise(() => {}), close } as unknown as Store;
  const address = { url: 'http://a', username: '', password: '', database: 'games' };
  const check = requireVisibleRows([address], () => silent);
  await vi.advanceTimersByTimeAsync(10_000);
  await check;
  expect(close).toHaveBeenCalledOnce();
});
