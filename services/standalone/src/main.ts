/** `npm start`: settings, start, the words for a newcomer, stop. */
import { loadConfig } from '@questlog/runtime/process/config';
import { messageOf } from '@questlog/runtime/process/errors';
import { createLifecycle, stopOnSignals } from '@questlog/runtime/process/lifecycle';
import { createLogger } from '@questlog/runtime/process/logger';
import { banner } from './banner.ts';
import { settings } from './config.ts';
import { startStandalone } from './standalone.ts';

// Before anything uses libuv's pool: each query of the embedded ClickHouse holds one of its threads.
process.env['UV_THREADPOOL_SIZE'] ??= '16';

const logger = createLogger('standalone');
const lifecycle = createLifecycle(logger);

try {
  const startedAtMs = performance.now();
  const config = loadConfig(settings, process.env, 'QUESTLOG_');
  if (process.argv.includes('--check-config')) {
    process.stdout.write(`${JSON.stringify(config, null, 2)}\n`);
    process.exit(0);
  }
  stopOnSignals(lifecycle, logger);
  const standalone = await startStandalone(config, logger, lifecycle);
  standalone.failed.catch(stopBroken);
  process.stdout.write(banner(standalone, config.revision, (performance.now() - startedAtMs) / 1000));
} catch (error) {
  // One line: the cause in words. What did start is closed, so that its locks are gone.
  process.stderr.write(`questlog: cannot start: ${messageOf(error)}\n`);
  await lifecycle.stop().catch(() => {});
  process.exit(1);
}

/** A part that cannot go on takes the process with it: a supervisor starts a clean one. */
function stopBroken(error: unknown): void {
  logger.error('cannot_go_on', error, { bug: true });
  void lifecycle.stop().then(
    () => process.exit(1),
    () => process.exit(1),
  );
}
