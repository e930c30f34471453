/**
 * Runs several ingest processes (workers) on one port (`QUESTLOG_WORKERS`). The parent process distributes connections with
 * node:cluster, restarts workers, and forwards messages between workers.
 */
import type { ChildProcess } from 'node:child_process';
import cluster, { type Worker } from 'node:cluster';
import {
  type SupervisedChild,
  sendMessage,
  superviseChild,
} from '@questlog/runtime/process/children/supervisedChild';
import type { Lifecycle } from '@questlog/runtime/process/lifecycle';
import type { Logger } from '@questlog/runtime/process/logger';
import type { Ready, Running } from '../wiring.ts';
import { FIRST_WORKER, type FromWorker, WORKER_ENV } from './worker.ts';

const RESTART_DELAYS_MS = [500, 16_000] as const;
const FAILURE_LIMIT = { withinMs: 60_000, most: 7 };

/** Starts the workers. Resolves when all workers are ready. Throws `StartRefused` if a worker cannot start. */
export async function startWorkers(count: number, logger: Logger, lifecycle: Lifecycle): Promise<Running> {
  const children = new Map<number, ChildProcess>();
  /** For each worker number, the process that became ready most recently. Only the listed processes receive messages. */
  const ready = new Map<number, ChildProcess>();
  const supervised: SupervisedChild<Ready>[] = [];
  lifecycle.onStop('workers', async () => {
    for (const child of children.values()) child.kill('SIGTERM');
    await Promise.all(supervised.map((one) => one.close()));
  });

  function spawn(worker: number): ChildProcess {
    const fork = cluster.fork({ [WORKER_ENV]: String(worker) });
    // If a worker has ended, passing a connection to the worker fails. Ignores this error. Without a listener, the error would
    // end this process.
    fork.on('error', () => {});
    const child = fork.process;
    releaseConnectionOnExit(fork);
    children.set(worker, child);
    child.on('message', (message: FromWorker) => {
      if ('ready' in message) ready.set(worker, child);
      const first = children.get(FIRST_WORKER);
      if ('response' in message && first !== undefined) sendMessage(first, message);
      if ('request' in message)
        for (const [other, to] of ready) if (other !== worker) sendMessage(to, message);
    });
    return child;
  }

  async function start(worker: number): Promise<SupervisedChild<Ready>> {
    const one = await superviseChild<Ready>({
      name: `worker ${worker}`,
      spawn: () => spawn(worker),
      stop: (child) => child.kill('SIGTERM'),
      events: { ended: 'worker_ended', notStarted: 'worker_not_started', fields: { worker } },
      ...{ logger, retryMs: RESTART_DELAYS_MS, failures: FAILURE_LIMIT },
    });
    supervised.push(one);
    return one;
  }

  // The first worker starts alone, because it creates files for all workers. If the start fails, only one error is reported.
  const { first } = await start(FIRST_WORKER);
  await Promise.all(Array.from({ length: count - 1 }, (_, index) => start(FIRST_WORKER + 1 + index)));
  return { ...first, failed: Promise.race(supervised.map(({ failed }) => failed)) };
}

/**
 * Closes the connection that a killed worker had not accepted. Otherwise, node:cluster would wait for the killed worker
 * forever, and no process would serve the port.
 */
function releaseConnectionOnExit(fork: Worker): void {
  const child = fork.process;
  const { send } = child;
  let last: { close(): void } | undefined;
  child.send = (...args: unknown[]): boolean => {
    const [, handle] = args;
    if (typeof handle === 'object' && handle !== null && 'close' in handle) last = handle as typeof last;
    return Reflect.apply(send, child, args);
  };
  // Must run before node:cluster's own listener. That listener sends the next connection, and `child.send` stores this
  // connection in `last`. If this code ran later, it would remove the next connection from `last`.
  child.prependListener('internalMessage', (message: object) => {
    if ('accepted' in message) last = undefined;
  });
  child.once('exit', () => {
    fork.disconnect();
    last?.close();
  });
}
