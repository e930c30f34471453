/**
 * The embedded ClickHouse in a process of its own: a statement can crash the engine or outlast every limit, and only a
 * process can be ended for certain. It is started again at once, with its port and its accounts. Nothing is lost by that:
 * what was acknowledged is on the disk, the rest is in the log.
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
/** A start costs a process, also one that a full disk refuses; and who waits for room is served some seconds after there is. */
const RETRY_MS = [500, 4_000] as const;

export type ToEngine = { readonly start: EmbeddedClickHouseOptions } | Probe | { readonly stop: true };

export interface EngineProcess {
  readonly url: string;
  /** What is wrong at the moment, as long as something is. */
  problem(): string | undefined;
  close(): Promise<void>;
}

/** @throws StartRefused when the first start fails; later ones are tried again until one does not. */
export async function startEngineProcess(
  options: EmbeddedClickHouseOptions,
  logger: Logger,
  times = DEFAULT_TIMES,
): Promise<EngineProcess> {
  const { first, problem, close } = await superviseChild<number>({
    name: 'the embedded ClickHouse',
    spawn: (port) => {
      // In the process group of this one, and with its output; without its terminal's signals, to which the child is deaf.
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
