/**
 * The embedded ClickHouse in a process of its own: a statement can crash the engine or outlast every limit, and only a
 * process can be ended for certain. It is started again at once, with its port and its accounts. Nothing is lost by that:
 * what was acknowledged is on the disk, the rest is in the log.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { messageOf, StartRefused } from '../../process/errors.ts';
import type { Logger } from '../../process/logger.ts';
import { Backoff, pause } from '../../process/waiting.ts';
import type { EmbeddedClickHouseOptions } from './embeddedClickHouse.ts';

const CHILD = fileURLToPath(new URL('./main.ts', import.meta.url));
/** A start costs a process, also one that a full disk refuses; and who waits for room is served some seconds after there is. */
const [RETRY_MS, MAX_RETRY_MS] = [500, 4_000];
export const PROBE_EVERY_MS = 5_000;
/** Queries without an answer until a process that still exists is taken for hung; a busy machine is slow at times. */
const MAX_MISSED_PROBES = 6;
/** More than a start takes that has many parts to load; one that takes longer hangs. */
const START_LIMIT_MS = 120_000;
/** More than the child takes to close by itself. */
const STOP_LIMIT_MS = 14_000;

export type ToChild =
  | { readonly start: EmbeddedClickHouseOptions }
  | { readonly probe: true }
  | { readonly stop: true };
export type FromChild = { readonly port: number } | { readonly refused?: string; readonly answers?: true };

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
  times = { probeMs: PROBE_EVERY_MS, startMs: START_LIMIT_MS },
): Promise<EngineProcess> {
  let { child, port } = await startChild(options, times.startMs);
  const url = `http://127.0.0.1:${port}`;
  let problem: string | undefined;
  const closing = new AbortController();

  async function supervise(): Promise<void> {
    while (!closing.signal.aborted) {
      const [code, signal] = await endOf(child, times.probeMs);
      if (closing.signal.aborted) return;
      problem = 'the embedded ClickHouse ended and is being started again';
      logger.error('embedded_clickhouse_ended', new Error(problem), { code, signal });
      const backoff = new Backoff(RETRY_MS, MAX_RETRY_MS);
      while (problem !== undefined && !closing.signal.aborted) {
        try {
          ({ child } = await startChild({ ...options, port }, times.startMs));
          problem = undefined;
        } catch (error) {
          problem = messageOf(error);
          const backoffMs = backoff.next();
          logger.warn('embedded_clickhouse_not_started', { cause: problem, backoffMs });
          await pause(backoffMs, closing.signal);
        }
      }
    }
  }
  const supervision = supervise();

  async function close(): Promise<void> {
    closing.abort();
    // Whatever is being started meanwhile is known by then.
    await Promise.race([supervision, delay(0)]);
    if (problem !== undefined) await supervision;
    if (hasEnded(child)) return;
    const ended = exitOf(child);
    tell(child, { stop: true });
    const limit = delay(STOP_LIMIT_MS, undefined, { ref: false });
    if ((await Promise.race([ended, limit])) === undefined) child.kill('SIGKILL');
    await supervision;
  }

  return { url, problem: () => problem, close };
}

/** In the process group of this one, and with its output; without its terminal's signals, to which the child is deaf. */
async function startChild(
  options: EmbeddedClickHouseOptions,
  startMs: number,
): Promise<{ child: ChildProcess; port: number }> {
  const child = spawn(process.execPath, [CHILD], { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] });
  // Stays: without a listener, a signal or a message that fails later would end this process.
  const failed = new Promise<never>((_, reject) => child.on('error', reject));
  const limit = setTimeout(() => child.kill('SIGKILL'), startMs).unref();
  const ended = exitOf(child).then(([code, signal]): [FromChild] => [
    { refused: `the embedded ClickHouse ended with ${code ?? signal} while it started` },
  ]);
  tell(child, { start: options });
  const [answer]: FromChild[] = await Promise.race([once(child, 'message'), ended, failed]);
  if (answer !== undefined && 'port' in answer) {
    clearTimeout(limit);
    return { child, port: answer.port };
  }
  await ended;
  throw new StartRefused(answer?.refused ?? 'the embedded ClickHouse does not start');
}

/** Resolves when the process has ended; one whose engine does not answer any more is killed first. */
async function endOf(child: ChildProcess, probeMs: number): Promise<readonly unknown[]> {
  let missed = 0;
  child.on('message', (message: FromChild) => {
    if ('answers' in message) missed = 0;
  });
  const probe = setInterval(() => {
    if (missed >= MAX_MISSED_PROBES) child.kill('SIGKILL');
    missed += 1;
    tell(child, { probe: true });
  }, probeMs).unref();
  return exitOf(child).finally(() => clearInterval(probe));
}

/** Not by `once` of node:events, which an `error` of the child rejects: it may run on then. */
function exitOf(child: ChildProcess): Promise<readonly unknown[]> {
  return new Promise((resolve) => {
    if (hasEnded(child)) resolve([child.exitCode, child.signalCode]);
    child.once('exit', (code, signal) => resolve([code, signal]));
  });
}

function hasEnded({ exitCode, signalCode }: ChildProcess): boolean {
  return exitCode !== null || signalCode !== null;
}

/** A child that has just ended takes no message; that it ended is seen anyway. */
function tell(child: ChildProcess, message: ToChild): void {
  child.send(message, () => {});
}
