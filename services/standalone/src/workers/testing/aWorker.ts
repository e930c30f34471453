/** A worker of `startWorkers.test.ts`: in the place of an ingest it counts its requests, on the port for games and on that of operators. */
import { ingestMetrics } from '@questlog/ingest/metrics';
import { createHealth } from '@questlog/runtime/process/health';
import { type ListenAddress, listen } from '@questlog/runtime/process/listen';
import { createMetricsRegistry } from '@questlog/runtime/process/metrics';
import { ofAllWorkers, ownWorker } from '../worker.ts';

const [count = '', adminPort = ''] = process.argv.slice(2);
const worker = ownWorker(process.env);
if (worker === undefined) throw new Error('a worker has a parent');
const registry = createMetricsRegistry(worker.number);
const { accepted } = ingestMetrics(registry);
const health = createHealth();
health.warn(`of ${worker.number}`, () => 'told');
const all = ofAllWorkers(Number(count), health, registry);
const addressOf = (port: string): ListenAddress => ({
  ...{ host: '127.0.0.1', port: Number(port) },
  settings: { host: '', port: '' },
});

const games = await listen((_, response) => {
  accepted.inc();
  response.end(String(process.pid));
}, addressOf('0'));
if (worker.isFirst) {
  await listen(async ({ url }, response) => {
    response.end(
      url === '/metrics' ? await all.exposition.metrics() : JSON.stringify(await all.health.state()),
    );
  }, addressOf(adminPort));
}
process.on('SIGTERM', () => games.close().then(() => process.exit(0)));
await worker.say({ ready: { baseUrl: `http://127.0.0.1:${games.port}` } });
