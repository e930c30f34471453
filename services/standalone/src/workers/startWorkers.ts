/**
 * `QUESTLOG_WORKERS`: several ingests on one port, each a process with all that an ingest has. This one hands out the
 * connections in turn (node:cluster), starts again what ends, and carries what the workers ask each other; it serves nobody.
 */
import type { ChildProcess } from 'node:child_process';
import cluster from 'node:cluster';
import {
  type SupervisedChild,
  superviseChild,
  tell,
} from '@questlog/runtime/process/children/supervisedChild';
import type { Lifecycle } from '@questlog/runtime/process/lifecycle';
import type { Logger } from '@questlog/runtime/process/logger';
import type { Ready, Running } from '../services.ts';
import { FIRST_WORKER, type FromWorker, WORKER } from './worker.ts';

/** At once behind a long run; what ends again and again is told to a supervisor after about half a minute. */
const RETRY_MS = [500, 16_000] as const;
const FAILURES = { withinMs: 60_000, most: 7 };

export interface WorkersDeps {
  readonly count: number;
  readonly logger: Logger;
  readonly lifecycle: Lifecycle;
}

/** @returns what the first worker says, once all are ready. @throws StartRefused where one is not. */
export async function startWorkers({ count, logger, lifecycle }: WorkersDeps): Promise<Running> {
  const children = new Map<number, ChildProcess>();
  const supervised: SupervisedChild<Ready>[] = [];
  lifecycle.onStop('workers', async () => {
    // Those too that are being started.
    for (const child of children.values()) child.kill('SIGTERM');
    await Promise.all(supervised.map((one) => one.close()));
  });

  function spawn(worker: number): ChildProcess {
    const fork = cluster.fork({ [WORKER]: String(worker) });
    // Of a connection for one that has just ended. Without a listener it would end this process.
    fork.on('error', () => {});
    const child = fork.process;
    endLastHandedOut(child);
    children.set(worker, child);
    child.on('message', (message: FromWorker) => {
      for (const [other, to] of children) {
        if ('ask' in message ? other !== worker : 'told' in message && other === FIRST_WORKER)
          tell(to, message);
      }
    });
    return child;
  }

  async function start(worker: number): Promise<SupervisedChild<Ready>> {
    const one = await superviseChild<Ready>({
      name: `worker ${worker}`,
      spawn: () => spawn(worker),
      stop: (child) => child.kill('SIGTERM'),
      told: { ended: 'worker_ended', notStarted: 'worker_not_started', fields: { worker } },
      ...{ logger, retryMs: RETRY_MS, failures: FAILURES },
    });
    supervised.push(one);
    return one;
  }

  // By itself: what a first start makes is there for the others, and what is wrong is told once.
  const { first } = await start(FIRST_WORKER);
  await Promise.all(Array.from({ length: count - 1 }, (_, index) => start(FIRST_WORKER + 1 + index)));
  return { ...first, failed: Promise.race(supervised.map(({ failed }) => failed)) };
}

/** node:cluster forgets the connection that it was handing to a worker as that died; its client would wait for an answer for ever. */
function endLastHandedOut(child: ChildProcess): void {
  const { send } = child;
  let last: { close(): void } | undefined;
  child.send = (...args: unknown[]): boolean => {
    const [, handle] = args;
    if (typeof handle === 'object' && handle !== null && 'close' in handle) last = handle as typeof last;
    return Reflect.apply(send, child, args);
  };
  child.once('exit', () => last?.close());
}
