/** For tests: whether something closes while what it depends on is silent. */
import { vi } from 'vitest';

/** A stop has 15 s for all that there is to close. */
const STOP_LIMIT_MS = 1_000;

export async function stopsInTime(close: () => Promise<void>): Promise<boolean> {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  let hasClosed = false;
  void close().then(() => {
    hasClosed = true;
  });
  await vi.advanceTimersByTimeAsync(STOP_LIMIT_MS);
  vi.useRealTimers();
  return hasClosed;
}
