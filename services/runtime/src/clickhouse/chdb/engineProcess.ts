/**
 * Runs the embedded ClickHouse in a separate process, because a statement can crash the engine or ignore all limits. If the
 * process ends, it is started again with the same port and accounts. A restart loses no data: acknowledged rows are on disk,
 * and the projector inserts all other rows again from the log.
 */
import { spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import {
  DEFAULT_TIMES,
  type Probe,
  sendMessage,
  superviseChild,
} from '../../process/children/supervisedChild.ts';
import type { Logger } from '../../process/logger.ts';
import type { EmbeddedClickHouseOptions } from './embeddedClickHouse.ts';

const CHILD = fileURLToPath(new URL('./main.ts', import.meta.url));
const RETRY_MS = [500, 4_000] as const;

export type ToEngine = { readonly start: EmbeddedClickHouseOptions } | Probe | { readonly stop: true };

export interface EngineProcess {
  readonly url: string;
  problem(): string | undefined;
  close(): Promise<void>;
}

/** Starts the engine in a child process. @throws StartRefused if the first start fails. Later starts are retried. */
export async function startEngineProcess(
  options: EmbeddedClickHouseOptions,
  logger: Logger,
  times = DEFAULT_TIMES,
): Promise<EngineProcess> {
  const { first, problem, close } = await superviseChild<number>({
    name: 'the embedded ClickHouse',
    spawn: (port) => {
      const child = spawn(process.execPath, [CHILD], { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] });
      sendMessage(child, { start: port === undefined ? options : { ...options, port } } satisfies ToEngine);
      return child;
    },
    stop: (child) => sendMessage(child, { stop: true } satisfies ToEngine),
    events: { ended: 'embedded_clickhouse_ended', notStarted: 'embedded_clickhouse_not_started' },
    ...{ logger, times, retryMs: RETRY_MS },
  });
  return { url: `http://127.0.0.1:${first}`, problem, close };
}
