/** Tests whether a component closes in time while its dependencies do not respond. */
import { vi } from 'vitest';

/** Time limit for the stop of one component. The whole process has 15 s for its stop. */
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
