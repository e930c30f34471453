/**
 * The embedded ClickHouse as a process of its own, on a directory: that of a standalone Questlog, which supervises it; or,
 * until SIGTERM, one that several Questlog processes share where there is no ClickHouse server. Not for production.
 */
import Type from 'typebox';
import { loadConfig, setting } from '../../process/config.ts';
import { messageOf } from '../../process/errors.ts';
import { createLifecycle, stopOnSignals } from '../../process/lifecycle.ts';
import { createLogger } from '../../process/logger.ts';
import { type EmbeddedClickHouse, startEmbeddedClickHouse } from './embeddedClickHouse.ts';
import { PROCESS_CONCURRENT_QUERIES, PROCESS_CONCURRENT_READERS } from './engine/limits.ts';
import type { FromChild, ToChild } from './engineProcess.ts';

// Before anything uses libuv's pool: each query holds one of its threads.
process.env['UV_THREADPOOL_SIZE'] ??= '16';

const PLACES = {
  maxConcurrentQueries: PROCESS_CONCURRENT_QUERIES,
  maxConcurrentReaders: PROCESS_CONCURRENT_READERS,
};

const settings = Type.Object({
  directory: setting.text({
    env: 'EMBEDDED_CLICKHOUSE_DIRECTORY',
    default: '.data/clickhouse',
    description: 'Folder of the data; one process at a time.',
  }),
  port: setting.integer({
    env: 'EMBEDDED_CLICKHOUSE_PORT',
    default: 8123,
    minimum: 0,
    maximum: 65_535,
    description: 'Port on 127.0.0.1; 0 takes any free one.',
  }),
  username: setting.text({
    env: 'EMBEDDED_CLICKHOUSE_USERNAME',
    default: 'questlog',
    description: 'The user that may do everything in it.',
  }),
  password: Type.String({
    env: 'EMBEDDED_CLICKHOUSE_PASSWORD',
    minLength: 1,
    description: 'Its password; there is none by default.',
  }),
  readerPassword: setting.secret({
    env: 'EMBEDDED_CLICKHOUSE_READER_PASSWORD',
    description: 'Of the user `reader`, which only reads; nobody has it where there is none.',
  }),
});

// With a channel, a supervisor has started this (`engineProcess.ts`); without one, somebody who sends SIGTERM.
if (process.send === undefined) await runAlone();
else runSupervised();

async function runAlone(): Promise<void> {
  // Its rows and accounts are nobody else's; a supervised one has this from its supervisor.
  process.umask(0o077);
  const logger = createLogger('embedded-clickhouse');
  const lifecycle = createLifecycle(logger);
  try {
    const { password, readerPassword, ...config } = loadConfig(settings, process.env, 'EMBEDDED_CLICKHOUSE_');
    stopOnSignals(lifecycle, logger);
    const server = await startEmbeddedClickHouse({
      ...config,
      password,
      ...(readerPassword === '' ? {} : { reader: { username: 'reader', password: readerPassword } }),
      ...PLACES,
    });
    lifecycle.onStop('embedded ClickHouse', () => server.close());
    process.stdout.write(`ready: ClickHouse on ${server.url}, user ${server.username}\n`);
  } catch (error) {
    process.stderr.write(`embedded ClickHouse: cannot start: ${messageOf(error)}\n`);
    process.exit(1);
  }
}

/**
 * Until the supervisor says stop, or is gone. A terminal's signals reach the whole process group; they are ignored here, as
 * the supervisor needs ClickHouse until it has stopped itself.
 */
function runSupervised(): void {
  let server: EmbeddedClickHouse | undefined;
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => {});
  // At once, whatever runs: the next start must not find the directory held.
  process.on('disconnect', endAtOnce);
  process.on('message', async (message: ToChild) => {
    if ('stop' in message) {
      await server?.close().catch(() => {});
      return endAtOnce();
    }
    if ('probe' in message) {
      await server?.probe();
      return tellSupervisor({ answers: true });
    }
    try {
      server = await startEmbeddedClickHouse({ ...PLACES, ...message.start, onBroken });
      tellSupervisor({ port: Number(new URL(server.url).port) });
    } catch (error) {
      tellSupervisor({ refused: messageOf(error) }, endAtOnce);
    }
  });
}

function onBroken(why: string): void {
  createLogger('embedded-clickhouse').error('embedded_clickhouse_broken', new Error(why));
  endAtOnce();
}

function tellSupervisor(message: FromChild, then: () => void = () => {}): void {
  process.send?.(message, undefined, undefined, then);
}

/** Not by an exit, which runs the destructors of an engine that may still work, and crashes or waits in them. */
function endAtOnce(): void {
  process.kill(process.pid, 'SIGKILL');
}
