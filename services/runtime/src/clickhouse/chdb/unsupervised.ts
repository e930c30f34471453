/** Runs the embedded ClickHouse as a process that is not restarted automatically. */
import Type from 'typebox';
import { PROBE_INTERVAL_MS } from '../../process/children/supervisedChild.ts';
import { loadConfig, setting } from '../../process/config.ts';
import { messageOf } from '../../process/errors.ts';
import { createLifecycle, stopOnSignals } from '../../process/lifecycle.ts';
import { createLogger, logOptions } from '../../process/logger.ts';
import { type EmbeddedClickHouseOptions, startEmbeddedClickHouse } from './embeddedClickHouse.ts';

type UnsupervisedOptions = Pick<
  EmbeddedClickHouseOptions,
  'maxConcurrentQueries' | 'maxConcurrentReaders' | 'onBroken' | 'onRequestFailure'
>;

const settings = Type.Object({
  directory: setting.text({
    env: 'EMBEDDED_CLICKHOUSE_DIRECTORY',
    default: '.data/clickhouse',
    description: 'Folder of the data. Only one process can use it at a time.',
  }),
  port: setting.integer({
    env: 'EMBEDDED_CLICKHOUSE_PORT',
    default: 8123,
    minimum: 0,
    maximum: 65_535,
    description: 'Port on 127.0.0.1; 0 selects any free port.',
  }),
  username: setting.text({
    env: 'EMBEDDED_CLICKHOUSE_USERNAME',
    default: 'questlog',
    description: 'User with all rights.',
  }),
  password: Type.String({
    env: 'EMBEDDED_CLICKHOUSE_PASSWORD',
    minLength: 1,
    description: 'Password of this user. Required.',
  }),
  readerPassword: setting.secret({
    env: 'EMBEDDED_CLICKHOUSE_READER_PASSWORD',
    description: 'Password of the read-only user `reader`. Empty disables this user.',
  }),
});

export async function runUnsupervised(options: UnsupervisedOptions): Promise<void> {
  // Only the operating system user of this process can read the data files.
  process.umask(0o077);
  const logger = createLogger('embedded-clickhouse', logOptions(process.env));
  const lifecycle = createLifecycle(logger);
  try {
    const { password, readerPassword, ...config } = loadConfig(settings, process.env, 'EMBEDDED_CLICKHOUSE_');
    stopOnSignals(lifecycle, logger);
    const server = await startEmbeddedClickHouse({
      ...config,
      password,
      ...(readerPassword === '' ? {} : { reader: { username: 'reader', password: readerPassword } }),
      ...options,
    });
    const probe = setInterval(() => void server.probe(), PROBE_INTERVAL_MS);
    lifecycle.onStop('embedded ClickHouse', () => {
      clearInterval(probe);
      return server.close();
    });
    process.stdout.write(`ready: ClickHouse on ${server.url}, user ${server.username}\n`);
  } catch (error) {
    process.stderr.write(`embedded ClickHouse: cannot start: ${messageOf(error)}\n`);
    process.exit(1);
  }
}
