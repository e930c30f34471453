/**
 * Runs the embedded ClickHouse in a separate process, because a statement can crash the engine or ignore all limits. If the
 * process ends, it is started again with the same port and accounts. A restart loses no data: acknowledged rows are on disk,
 * and the projector inserts all other rows again from the log.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import {
  DEFAULT_TIMES,
  type Probe,
  sendMessage,
  superviseChild,
} from '../../process/children/supervisedChild.ts';
import type { Logger } from '../../process/logger.ts';
import type { StudioReader } from '../studioTables.ts';
import type { EmbeddedClickHouseOptions } from './embeddedClickHouse.ts';

const CHILD = fileURLToPath(new URL('./main.ts', import.meta.url));
const RETRY_MS = [500, 4_000] as const;

type StartOptions = Omit<EmbeddedClickHouseOptions, 'studios'>;
export type ToEngine =
  | { readonly start: StartOptions }
  | { readonly studios: readonly StudioReader[] }
  | Probe
  | { readonly stop: true };

export interface EngineProcess {
  /** Replaces the accounts of studios. Resolves when the accounts are valid, also after a restart of the engine. */
  setStudios(studios: readonly StudioReader[]): Promise<void>;
  readonly url: string;
  problem(): string | undefined;
  close(): Promise<void>;
}

/** Starts the engine in a child process. @throws StartRefused if the first start fails. Later starts are retried. */
export async function startEngineProcess(
  options: StartOptions,
  logger: Logger,
  times = DEFAULT_TIMES,
): Promise<EngineProcess> {
  let studios: readonly StudioReader[] = [];
  let current: ChildProcess | undefined;
  const { first, problem, close } = await superviseChild<number>({
    name: 'the embedded ClickHouse',
    spawn: (port) => {
      const child = spawn(process.execPath, [CHILD], { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] });
      current = child;
      sendMessage(child, { studios } satisfies ToEngine);
      sendMessage(child, { start: port === undefined ? options : { ...options, port } } satisfies ToEngine);
      return child;
    },
    stop: (child) => sendMessage(child, { stop: true } satisfies ToEngine),
    events: { ended: 'embedded_clickhouse_ended', notStarted: 'embedded_clickhouse_not_started' },
    ...{ logger, times, retryMs: RETRY_MS },
  });
  let applied = Promise.resolve();
  const setStudios = (given: readonly StudioReader[]): Promise<void> => {
    studios = given;
    applied = applied.then(async () => current && (await sendAndWait(current, { studios })));
    return applied;
  };
  return { url: `http://127.0.0.1:${first}`, problem, close, setStudios };
}

/** Sends a message and waits for the answer. Also resolves when the process exits, because a new process gets the accounts. */
function sendAndWait(child: ChildProcess, message: ToEngine): Promise<void> {
  return new Promise((resolve) => {
    const settle = (): void => {
      child.off('message', onMessage).off('exit', settle);
      resolve();
    };
    const onMessage = (answer: object): void => {
      if ('hasStudios' in answer) settle();
    };
    child.on('message', onMessage).once('exit', settle);
    child.send(message, (error) => {
      if (error !== null) settle();
    });
  });
}
