/**
 * Heartbeats of the service `operations`, by which the service `ingest` detects whether `operations` runs. Without
 * `operations`, nothing erases data, deletes expired data, or measures lag.
 */

import type { Clock } from '../process/clock.ts';
import { messageOf } from '../process/errors.ts';
import type { Health } from '../process/health.ts';
import type { Logger } from '../process/logger.ts';
import { runPeriodically } from '../process/waiting.ts';
import type { DirectoryHandle } from './openDirectory.ts';

const SERVICE = 'operations';
const INTERVAL_MS = 20_000;
const WARN_AFTER_MS = 60_000;

/** Writes a heartbeat every 20 s. Returns a function that stops the heartbeats. */
export function writeHeartbeats(
  directory: Pick<DirectoryHandle, 'put'>,
  clock: Clock,
  logger: Logger,
  intervalMs = INTERVAL_MS,
): () => Promise<void> {
  const write = () => directory.put('heartbeat', SERVICE, { at: clock.now() });
  return runPeriodically(write, { everyMs: intervalMs }, (error) =>
    logger.warn('heartbeat_not_written', { cause: messageOf(error) }),
  );
}

export function warnWithoutHeartbeat(
  directory: Pick<DirectoryHandle, 'current'>,
  clock: Clock,
  health: Pick<Health, 'warn'>,
): void {
  health.warn(SERVICE, () => {
    const at = directory.current.heartbeats.get(SERVICE)?.at;
    if (at !== undefined && clock.now() - at <= WARN_AFTER_MS) return undefined;
    const since =
      at === undefined
        ? 'no process of operations has run yet'
        : `no process of operations has run for ${Math.round((clock.now() - at) / 1_000)} s`;
    return `${since}: expired and erased data is not removed, and the lag of consumer groups is not watched. Start \`questlog operations\``;
  });
}
