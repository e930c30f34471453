/**
 * Entry point of the process that runs the embedded ClickHouse. If the engine is unusable, the process kills itself. Usually,
 * Questlog supervises and restarts the process.
 */
import type { FromChild } from '../../process/children/supervisedChild.ts';
import { messageOf } from '../../process/errors.ts';
import { createLogger, logOptions } from '../../process/logger.ts';
import type { StudioReader } from '../studioTables.ts';
import { type EmbeddedClickHouse, startEmbeddedClickHouse } from './embeddedClickHouse.ts';
import { PROCESS_CONCURRENT_QUERIES, PROCESS_CONCURRENT_READERS } from './engine/limits.ts';
import type { ToEngine } from './engineProcess.ts';
import type { StudioStatement } from './http/statementAudit.ts';

// Sets the size of libuv's thread pool before the pool is used. Each query occupies a thread.
process.env['UV_THREADPOOL_SIZE'] ??= '16';
// Sets the time zone, because the engine ignores `timezone` in its configuration file (measured on ClickHouse 26.7).
process.env['TZ'] = 'UTC';

const CONCURRENCY = {
  maxConcurrentQueries: PROCESS_CONCURRENT_QUERIES,
  maxConcurrentReaders: PROCESS_CONCURRENT_READERS,
};

const logger = createLogger('embedded-clickhouse', logOptions(process.env));
const CALLBACKS = {
  onBroken,
  onRequestFailure: (error: unknown) =>
    logger.error('embedded_clickhouse_request_failed', error, { bug: true }),
  onStudioStatement: (statement: StudioStatement) => logger.info('studio_statement', { ...statement }),
};

// A process with an IPC channel receives its settings from its supervisor. A second load of the settings would double the CPU
// time before the engine starts.
if (process.send === undefined)
  await (await import('./unsupervised.ts')).runUnsupervised({ ...CONCURRENCY, ...CALLBACKS });
else runSupervised();

/**
 * Runs until the supervisor requests a stop or exits. Ignores signals of the terminal, because the supervisor also gets the
 * signals and still needs ClickHouse during its own stop.
 */
function runSupervised(): void {
  let server: EmbeddedClickHouse | undefined;
  const studios = new Map<string, StudioReader>();
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => {});
  // Exits immediately, so that the next engine process can open the data directory.
  process.on('disconnect', killSelf);
  process.on('message', async (message: ToEngine) => {
    if ('stop' in message) {
      await server?.close().catch(() => {});
      return killSelf();
    }
    if ('studios' in message) {
      studios.clear();
      for (const studio of message.studios) studios.set(studio.username, studio);
      return void process.send?.({ hasStudios: true });
    }
    if ('probe' in message) {
      await server?.probe();
      return sendToSupervisor({ answers: true });
    }
    try {
      server = await startEmbeddedClickHouse({ ...CONCURRENCY, ...message.start, studios, ...CALLBACKS });
      sendToSupervisor({ ready: Number(new URL(server.url).port) });
    } catch (error) {
      sendToSupervisor({ refused: messageOf(error) }, killSelf);
    }
  });
}

function onBroken(reason: string): void {
  logger.error('embedded_clickhouse_broken', new Error(reason));
  killSelf();
}

function sendToSupervisor(message: FromChild<number>, onSent: () => void = () => {}): void {
  process.send?.(message, undefined, undefined, onSent);
}

/** Kills this process. A regular exit would run the destructors of the engine, which can crash or hang. */
function killSelf(): void {
  process.kill(process.pid, 'SIGKILL');
}
