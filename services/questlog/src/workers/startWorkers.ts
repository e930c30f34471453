/**
 * `QUESTLOG_WORKERS`: several ingests on one port, each a process with all that an ingest has. This one hands out the
 * connections in turn (node:cluster), starts again what ends, and carries what the workers ask each other; it serves nobody.
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

/** At once behind a long run; what ends again and again is told to a supervisor after about half a minute. */
const RESTART_DELAYS_MS = [500, 16_000] as const;
const FAILURE_LIMIT = { withinMs: 60_000, most: 7 };

export interface WorkersDeps {
  readonly count: number;
  readonly logger: Logger;
  readonly lifecycle: Lifecycle;
}

/** @returns what the first worker says, once all are ready. @throws StartRefused where one is not. */
export async function startWorkers({ count, logger, lifecycle }: WorkersDeps): Promise<Running> {
  const children = new Map<number, ChildProcess>();
  /** The last of each that could serve. One that cannot yet is asked nothing, so that operators are told that it is missing. */
  const ready = new Map<number, ChildProcess>();
  const supervised: SupervisedChild<Ready>[] = [];
  lifecycle.onStop('workers', async () => {
    // Those too that are being started.
    for (const child of children.values()) child.kill('SIGTERM');
    await Promise.all(supervised.map((one) => one.close()));
  });

  function spawn(worker: number): ChildProcess {
    const fork = cluster.fork({ [WORKER_ENV]: String(worker) });
    // Of a connection for one that has just ended. Without a listener it would end this process.
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

  // By itself: what a first start makes is there for the others, and what is wrong is told once.
  const { first } = await start(FIRST_WORKER);
  await Promise.all(Array.from({ length: count - 1 }, (_, index) => start(FIRST_WORKER + 1 + index)));
  return { ...first, failed: Promise.race(supervised.map(({ failed }) => failed)) };
}

/**
 * node:cluster hands a worker one connection at a time, and waits until it is taken up. Of one that was killed meanwhile it may wait
 * for ever: it would keep the worker's share in the port, which stays open then with nobody behind it, and the client would wait, too.
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
  // Taken up, or left to another one. First: what follows it is handed out in the listener of node:cluster.
  child.prependListener('internalMessage', (message: object) => {
    if ('accepted' in message) last = undefined;
  });
  child.once('exit', () => {
    fork.disconnect();
    last?.close();
  });
}
