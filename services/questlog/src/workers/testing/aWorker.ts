/**
 * Worker of `startWorkers.test.ts`. Instead of running ingest, the worker counts requests on the port for games and the port
 * for operators. It waits at a gate before it listens, like an ingest that first reads the log. A second process shares the
 * worker's channel and ends with the worker. The channel therefore closes only after the worker's end, as can happen on a busy
 * machine.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { connect } from 'node:net';
import { ingestMetrics } from '@questlog/ingest/metrics';
import { createHealth } from '@questlog/runtime/process/health';
import { listen } from '@questlog/runtime/process/listener/listen';
import type { ListenAddress } from '@questlog/runtime/process/listener/listenAddress';
import { createMetricsRegistry } from '@questlog/runtime/process/metrics';
import { combineWorkers, currentWorker } from '../worker.ts';

const [count = '', port = '', adminPort = '', gate = ''] = process.argv.slice(2);
const worker = currentWorker(process.env);
if (worker === undefined) throw new Error('a worker has a parent');
spawn('cat', { stdio: ['pipe', 'ignore', 'ignore', Reflect.get(process.channel ?? {}, 'fd')] });
const registry = createMetricsRegistry({ worker: worker.number });
const { accepted } = ingestMetrics(registry);
const health = createHealth();
health.warn(`of ${worker.number}`, () => String(process.pid));
const all = combineWorkers(Number(count), health, registry);
const addressOf = (port: string): ListenAddress => ({
  ...{ host: '127.0.0.1', port: Number(port) },
  settings: { host: '', port: '' },
});

await once(connect(Number(gate), '127.0.0.1').resume(), 'end');
const games = await listen((_, response) => {
  accepted.inc();
  response.end(String(process.pid));
}, addressOf(port));
if (worker.isFirst) {
  await listen(
    async ({ url }, response) => {
      response.end(
        url === '/metrics' ? await all.exposition.metrics() : JSON.stringify(await all.health.state()),
      );
    },
    { ...addressOf(adminPort), exclusive: true },
  );
}
process.on('SIGTERM', () => games.close().then(() => process.exit(0)));
await worker.send({ ready: { baseUrl: `http://127.0.0.1:${games.port}` } });
