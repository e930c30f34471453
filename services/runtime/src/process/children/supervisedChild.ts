/**
 * A child process that is started again when it ends, or hangs: the embedded ClickHouse, a worker of ingest. Parent and child
 * speak over the channel that Node opens between them.
 */
import type { ChildProcess } from 'node:child_process';
import { setTimeout as delay } from 'node:timers/promises';
import { messageOf, StartRefused } from '../errors.ts';
import { CHILD_STOP_DEADLINE_MS } from '../lifecycle.ts';
import type { Logger } from '../logger.ts';
import { Backoff, Failure, pause, withinLimit } from '../waiting.ts';

export const PROBE_INTERVAL_MS = 5_000;
/** Probes without an answer until a process that still exists is taken for hung; a busy machine is slow at times. */
const MAX_MISSED_PROBES = 6;
/** More than a start takes that has many parts to load; one that takes longer hangs. */
const START_TIMEOUT_MS = 120_000;
/** More than a child takes to close by itself, or to say that it cannot, and less than this process has. */
const STOP_TIMEOUT_MS = CHILD_STOP_DEADLINE_MS + 1_000;

export const DEFAULT_TIMES = { probeMs: PROBE_INTERVAL_MS, startMs: START_TIMEOUT_MS };

export interface Probe {
  readonly probe: true;
}
/** How the start went. */
type StartResult<T> = { readonly ready: T } | { readonly refused: string };
/** Later also that it answers a probe. */
export type FromChild<T> = StartResult<T> | { readonly answers: true };

export interface ChildOptions<T> {
  /** As people call it. */
  readonly name: string;
  /** @param firstReady what the first one said when it was ready; undefined: this is the first. */
  spawn(firstReady: T | undefined): ChildProcess;
  stop(child: ChildProcess): void;
  /** Names of its lines in the log, and their fields. */
  readonly events: { readonly ended: string; readonly notStarted: string; readonly fields?: object };
  readonly logger: Logger;
  readonly times?: { readonly probeMs: number; readonly startMs: number };
  /** Between two tries. */
  readonly retryMs: readonly [first: number, most: number];
  /** One that ended sooner after its start, and one that did not start, has failed: so many in a row are the end. */
  readonly failures?: { readonly withinMs: number; readonly most: number };
}

export interface SupervisedChild<T> {
  /** What the first one said. */
  readonly first: T;
  /** What is wrong at the moment, as long as something is. */
  problem(): string | undefined;
  /** Rejects when it has failed too often. */
  readonly failed: Promise<never>;
  close(): Promise<void>;
}

/** @throws StartRefused when the first start fails; later ones are tried again. */
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
      problem = `${name} ended and is being started again`;
      logger.error(told.ended, new Error(problem), { ...told.fields, code, signal });
      if (performance.now() - startedAtMs < failures.withinMs)
        await onFailure(`it ended with ${code ?? signal}`);
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
    // Whatever is being started meanwhile is known by then.
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

/** A child that has just ended takes no message; that it ended is seen anyway. */
export function sendMessage(child: ChildProcess, message: object): void {
  child.send(message, () => {});
}

async function waitForStart<T>(
  { name }: ChildOptions<T>,
  child: ChildProcess,
  startMs: number,
): Promise<{ child: ChildProcess; ready: T }> {
  // Stays: without a listener, a signal or a message that fails later would end this process.
  const failed = new Promise<never>((_, reject) => child.on('error', reject));
  const limit = setTimeout(() => child.kill('SIGKILL'), startMs).unref();
  // What else it says before is for others.
  const reported = new Promise<StartResult<T>>((resolve) =>
    child.on('message', (message: StartResult<T>) => {
      if ('ready' in message || 'refused' in message) resolve(message);
    }),
  );
  const ended = waitForExit(child).then(([code, signal]) => ({
    refused: `${name} ended with ${code ?? signal} while it started`,
  }));
  const result = await Promise.race([reported, ended, failed]);
  if ('ready' in result) {
    clearTimeout(limit);
    return { child, ready: result.ready };
  }
  await ended;
  throw new StartRefused(result.refused);
}

/** Resolves when the process has ended; one that does not answer any more is killed first. */
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

/** Not by `once` of node:events, which an `error` of the child rejects: it may run on then. */
function waitForExit(child: ChildProcess): Promise<readonly unknown[]> {
  return new Promise((resolve) => {
    if (hasEnded(child)) resolve([child.exitCode, child.signalCode]);
    child.once('exit', (code, signal) => resolve([code, signal]));
  });
}

function hasEnded({ exitCode, signalCode }: ChildProcess): boolean {
  return exitCode !== null || signalCode !== null;
}
