/**
 * The embedded ClickHouse as a process of its own, on a directory: that of a standalone Questlog, which supervises it; or,
 * until SIGTERM, one that several Questlog processes share where there is no ClickHouse server. Not for production. It kills
 * itself when the engine is of no use any more: whoever runs it starts it again then.
 */
import type { FromChild } from '../../process/children/supervisedChild.ts';
import { messageOf } from '../../process/errors.ts';
import { createLogger, logOptions } from '../../process/logger.ts';
import { type EmbeddedClickHouse, startEmbeddedClickHouse } from './embeddedClickHouse.ts';
import { PROCESS_CONCURRENT_QUERIES, PROCESS_CONCURRENT_READERS } from './engine/limits.ts';
import type { ToEngine } from './engineProcess.ts';

// Before anything uses libuv's pool: each query holds one of its threads.
process.env['UV_THREADPOOL_SIZE'] ??= '16';
// The engine takes its time zone from the environment and ignores `timezone` in its configuration file (measured on 26.7).
process.env['TZ'] = 'UTC';

const CONCURRENCY = {
  maxConcurrentQueries: PROCESS_CONCURRENT_QUERIES,
  maxConcurrentReaders: PROCESS_CONCURRENT_READERS,
};

// With a channel, a supervisor has started this (`engineProcess.ts`); without one, somebody who sends SIGTERM.
// What reads settings is loaded there alone: it would take half of what a supervised start computes before its engine.
if (process.send === undefined)
  await (await import('./unsupervised.ts')).runUnsupervised({ ...CONCURRENCY, onBroken });
else runSupervised();

/**
 * Until the supervisor says stop, or is gone. A terminal's signals reach the whole process group; they are ignored here, as
 * the supervisor needs ClickHouse until it has stopped itself.
 */
function runSupervised(): void {
  let server: EmbeddedClickHouse | undefined;
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => {});
  // At once, whatever runs: the next start must not find the directory held.
  process.on('disconnect', killSelf);
  process.on('message', async (message: ToEngine) => {
    if ('stop' in message) {
      await server?.close().catch(() => {});
      return killSelf();
    }
    if ('probe' in message) {
      await server?.probe();
      return sendToSupervisor({ answers: true });
    }
    try {
      server = await startEmbeddedClickHouse({ ...CONCURRENCY, ...message.start, onBroken });
      sendToSupervisor({ ready: Number(new URL(server.url).port) });
    } catch (error) {
      sendToSupervisor({ refused: messageOf(error) }, killSelf);
    }
  });
}

function onBroken(reason: string): void {
  createLogger('embedded-clickhouse', logOptions(process.env)).error(
    'embedded_clickhouse_broken',
    new Error(reason),
  );
  killSelf();
}

function sendToSupervisor(message: FromChild<number>, onSent: () => void = () => {}): void {
  process.send?.(message, undefined, undefined, onSent);
}

/** Not by an exit, which runs the destructors of an engine that may still work, and crashes or waits in them. */
function killSelf(): void {
  process.kill(process.pid, 'SIGKILL');
}
