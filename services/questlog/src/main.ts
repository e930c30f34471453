#!/usr/bin/env node
/**
 * Implements the command `questlog [standalone | ingest | operations | linker | projector]`, which starts and stops the
 * services.
 */
import { existsSync, readFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { setFlagsFromString } from 'node:v8';
import { deprecatedNames, loadConfig, shownConfig } from '@questlog/runtime/process/config';
import { messageOf, StartRefused } from '@questlog/runtime/process/errors';
import { CHILD_STOP_DEADLINE_MS, createLifecycle, stopOnSignals } from '@questlog/runtime/process/lifecycle';
import { createLogger, logOptions } from '@questlog/runtime/process/logger';
import type { Tracing } from '@questlog/runtime/tracing/tracing';
import { banner } from './banner.ts';
import { checkedOptions, settings } from './config.ts';
import { SERVICES } from './serviceNames.ts';
import { startWorkers } from './workers/startWorkers.ts';
import { currentWorker } from './workers/worker.ts';

// Files with the tenants' data must be readable only by the owner.
process.umask(0o077);
// By default, V8 can run a full collection every second while the heap is small, and all requests wait for the collection. This
// flag makes full collections rarer.
setFlagsFromString('--heap-growing-percent=100');
// By default, V8 allocates the objects of requests in the old space after a time of high load. This flag keeps new objects in
// the young space (decision 0051).
setFlagsFromString('--no-allocation-site-pretenuring');

const FLAGS = {
  'check-config': { type: 'boolean' },
  help: { type: 'boolean', short: 'h' },
  version: { type: 'boolean' },
} as const;
const USAGE = `questlog [${SERVICES.join(' | ')}] [--check-config | --help | --version]`;
const HELP = `${USAGE}

  standalone  all services in one process (the default), on embedded engines unless settings name others
  ingest      receives events, sessions, and bug reports over HTTP
  operations  serves operators: administration, erasure, retention, and the console
  linker      links events to bug reports
  projector   writes the log to ClickHouse

  --check-config  prints the effective settings (secrets as ***) and exits

Settings are environment variables: docs/reference/config.md lists them.
`;

const worker = currentWorker(process.env);
let tracing: Tracing | undefined;
const logger = createLogger('questlog', {
  ...logOptions(process.env),
  worker: worker?.number,
  traceId: () => tracing?.traceId(),
});
const lifecycle = createLifecycle(logger, worker && CHILD_STOP_DEADLINE_MS);

try {
  const startedAtMs = performance.now();
  const { service, flags } = commandLine(process.argv.slice(2));
  if (flags.help === true || flags.version === true) {
    process.stdout.write(flags.help === true ? HELP : `${version()}\n`);
    process.exit(0);
  }
  const config = loadConfig(settings, process.env, 'QUESTLOG_');
  for (const name of deprecatedNames(settings, process.env)) logger.warn('setting_deprecated', { ...name });
  const options = checkedOptions(config, service === 'standalone');
  if (flags['check-config'] === true) {
    const log = options.kafka === undefined ? 'embedded' : 'kafka';
    const shown = { ...shownConfig(settings, config), log };
    process.stdout.write(`${JSON.stringify(shown, null, 2)}\n`);
    process.exit(0);
  }
  stopOnSignals(lifecycle, logger);
  const start = async () => {
    // `services.ts` is imported dynamically, because the parent process of workers does not need the module.
    const { startServices } = await import('./services.ts');
    if (options.tracing !== undefined) {
      const { openTracing } = await import('@questlog/runtime/tracing/openTelemetry');
      const name = service === 'standalone' ? 'questlog' : `questlog-${service}`;
      const opened = openTracing(options.tracing, { name, version: version() }, logger);
      lifecycle.onStop('traces', () => opened.close());
      tracing = opened;
    }
    const started = await startServices({
      service,
      tracing,
      settings: config,
      options,
      logger,
      lifecycle,
      worker,
      version: version(),
      revision: revision(),
    });
    // A stop calls the functions in reverse order, so the export of traces continues while the services stop.
    lifecycle.onStop('spans', () => tracing?.flush());
    return started;
  };
  const hasWorkers = service === 'ingest' && config.workers > 1 && worker === undefined;
  const { failed, ...ready } = await (hasWorkers ? startWorkers(config.workers, logger, lifecycle) : start());
  failed.catch(stopAfterFailure);
  const seconds = (performance.now() - startedAtMs) / 1000;
  const isTerminal = process.stdout.isTTY;
  if (worker !== undefined) await worker.send({ ready });
  else process.stdout.write(banner(ready, { revision: config.revision, seconds, isTerminal }));
} catch (error) {
  // If a signal interrupted the start, no error is printed. Parts that were already started are stopped to release their locks.
  const refused = messageOf(error).replace(/\s+/g, ' ').trim();
  if (worker !== undefined) await worker.send({ refused });
  else if (!lifecycle.isStopping()) process.stderr.write(`questlog: cannot start: ${refused}\n`);
  await lifecycle.stop().catch(() => {});
  process.exit(1);
}

function commandLine(args: string[]) {
  try {
    const { positionals, values } = parseArgs({ args, allowPositionals: true, options: FLAGS });
    const [requested = 'standalone', ...more] = positionals;
    const service = SERVICES.find((name) => name === requested);
    if (service !== undefined && more.length === 0) return { service, flags: values };
  } catch {}
  throw new StartRefused(`usage: ${USAGE}`);
}

function version(): string {
  const manifest: { version: string } = JSON.parse(
    readFileSync(new URL('../../../package.json', import.meta.url), 'utf8'),
  );
  return manifest.version;
}

/** Returns the commit of the container image, which the Dockerfile writes into a file. */
function revision(): string | undefined {
  const file = new URL('../../../REVISION', import.meta.url);
  return existsSync(file) ? readFileSync(file, 'utf8').trim() : undefined;
}

function stopAfterFailure(error: unknown): void {
  logger.error('cannot_go_on', error, { bug: true });
  void lifecycle.stop().then(
    () => process.exit(1),
    () => process.exit(1),
  );
}
