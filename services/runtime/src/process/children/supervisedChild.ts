/** Starts a child process, and restarts it if it exits or hangs. Parent and child communicate over Node's IPC channel. */
import type { ChildProcess } from 'node:child_process';
import { setTimeout as delay } from 'node:timers/promises';
import { messageOf, StartRefused } from '../errors.ts';
import { CHILD_STOP_DEADLINE_MS } from '../lifecycle.ts';
import type { Logger } from '../logger.ts';
import { Backoff, Failure, pause, withinLimit } from '../waiting.ts';

export const PROBE_INTERVAL_MS = 5_000;
/** A child is killed after this number of unanswered probes. A busy machine can delay a few answers. */
const MAX_MISSED_PROBES = 6;
const START_TIMEOUT_MS = 120_000;
/** Time in which a child must stop before it is killed. The child ends itself one second before this limit. */
const STOP_TIMEOUT_MS = CHILD_STOP_DEADLINE_MS + 1_000;

export const DEFAULT_TIMES = { probeMs: PROBE_INTERVAL_MS, startMs: START_TIMEOUT_MS };

export interface Probe {
  readonly probe: true;
}
type StartResult<T> = { readonly ready: T } | { readonly refused: string };
/** Message from a child. The first message is the result of the start. Later messages answer probes. */
export type FromChild<T> = StartResult<T> | { readonly answers: true };

export interface ChildOptions<T> {
  readonly name: string;
  /** Starts a child. `firstReady` is the value that the first child reported when ready. Undefined for the first start. */
  spawn(firstReady: T | undefined): ChildProcess;
  stop(child: ChildProcess): void;
  readonly events: { readonly ended: string; readonly notStarted: string; readonly fields?: object };
  readonly logger: Logger;
  readonly times?: { readonly probeMs: number; readonly startMs: number };
  readonly retryMs: readonly [first: number, most: number];
  /**
   * Supervision ends after a number of consecutive failures (`most`). A failed start is a failure. An exit within `withinMs`
   * after a start is also a failure.
   */
  readonly failures?: { readonly withinMs: number; readonly most: number };
}

export interface SupervisedChild<T> {
  readonly first: T;
  /** Returns the reason why the child is not running, as a message for operators. Undefined if the child is running. */
  problem(): string | undefined;
  readonly failed: Promise<never>;
  close(): Promise<void>;
}

/** Starts the child and supervises it. @throws StartRefused if the first start fails. Later starts are retried. */
export async function superviseChild<T>(options: ChildOptions<T>): Promise<SupervisedChild<T>> {
  const { name, logger, events: told, retryMs } = options;
  const { times = DEFAULT_TIMES, failures = { withinMs: 0, most: Number.POSITIVE_INFINITY } } = options;
  let { child, ready: first } = await waitForStart(options, options.spawn(undefined), times.startMs);
  let problem: string | undefined;
  const { failed, fail } = new Failure();
  const closing = new AbortController();

  async function supervise(): Promise<void> {
    const backoff = new Backoff(...retryMs);
    let consecutiveFailures = 0;
    const onFailure = async (cause: string): Promise<void> => {
      problem = cause;
      consecutiveFailures += 1;
      if (consecutiveFailures >= failures.most)
        throw new Error(`${name} failed ${consecutiveFailures} times: ${cause}`);
      const backoffMs = backoff.next();
      logger.warn(told.notStarted, { ...told.fields, cause, backoffMs });
      await pause(backoffMs, closing.signal);
    };
    while (!closing.signal.aborted) {
      const startedAtMs = performance.now();
      const [code, signal] = await superviseUntilExit(child, times.probeMs);
      if (closing.signal.aborted) return;
      problem = `${name} exited and is being restarted`;
      logger.error(told.ended, new Error(problem), { ...told.fields, code, signal });
      if (performance.now() - startedAtMs < failures.withinMs)
        await onFailure(`it exited with ${code ?? signal}`);
      else {
        backoff.reset();
        consecutiveFailures = 0;
      }
      while (problem !== undefined && !closing.signal.aborted) {
        try {
          ({ child } = await waitForStart(options, options.spawn(first), times.startMs));
          problem = undefined;
        } catch (error) {
          await onFailure(messageOf(error));
        }
      }
    }
  }
  const supervision = supervise().catch(fail);

  async function close(): Promise<void> {
    closing.abort();
    await Promise.race([supervision, delay(0)]);
    if (problem !== undefined) await supervision;
    if (hasEnded(child)) return;
    const ended = waitForExit(child);
    options.stop(child);
    await withinLimit<unknown>(ended, STOP_TIMEOUT_MS, () => child.kill('SIGKILL'));
    await supervision;
  }

  return { first, problem: () => problem, failed, close };
}

/** Sends a message to a child. Errors are ignored, because the supervision notices the exit of a child. */
export function sendMessage(child: ChildProcess, message: object): void {
  child.send(message, () => {});
}

async function waitForStart<T>(
  { name }: ChildOptions<T>,
  child: ChildProcess,
  startMs: number,
): Promise<{ child: ChildProcess; ready: T }> {
  // The `error` listener stays registered after the start, because an `error` event without a listener would end this process.
  const failed = new Promise<never>((_, reject) => child.on('error', reject));
  const limit = setTimeout(() => child.kill('SIGKILL'), startMs).unref();
  const reported = new Promise<StartResult<T>>((resolve) =>
    child.on('message', (message: StartResult<T>) => {
      if ('ready' in message || 'refused' in message) resolve(message);
    }),
  );
  const ended = waitForExit(child).then(([code, signal]) => ({
    refused: `${name} exited with ${code ?? signal} during its start`,
  }));
  const result = await Promise.race([reported, ended, failed]);
  if ('ready' in result) {
    clearTimeout(limit);
    return { child, ready: result.ready };
  }
  await ended;
  throw new StartRefused(result.refused);
}

/** Resolves when the child has exited. Kills a child that does not answer probes. */
async function superviseUntilExit(child: ChildProcess, probeMs: number): Promise<readonly unknown[]> {
  let missedProbes = 0;
  child.on('message', (message: FromChild<unknown>) => {
    if ('answers' in message) missedProbes = 0;
  });
  const probe = setInterval(() => {
    if (missedProbes >= MAX_MISSED_PROBES) child.kill('SIGKILL');
    missedProbes += 1;
    sendMessage(child, { probe: true } satisfies Probe);
  }, probeMs).unref();
  return waitForExit(child).finally(() => clearInterval(probe));
}

/** Resolves when the child has exited. `once` of `node:events` would reject on an `error` event while the child is running. */
function waitForExit(child: ChildProcess): Promise<readonly unknown[]> {
  return new Promise((resolve) => {
    if (hasEnded(child)) resolve([child.exitCode, child.signalCode]);
    child.once('exit', (code, signal) => resolve([code, signal]));
  });
}

function hasEnded({ exitCode, signalCode }: ChildProcess): boolean {
  return exitCode !== null || signalCode !== null;
}
