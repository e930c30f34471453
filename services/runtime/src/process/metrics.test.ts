import { Counter, Gauge } from 'prom-client';
import { expect, test } from 'vitest';
import { createMetricsRegistry, keepDeprecatedName, resourceMetrics, toOpenMetrics } from './metrics.ts';

test('a metric under its deprecated name has the type and the series of the new name at each scrape', async () => {
  const registry = createMetricsRegistry();
  const registers = [registry];
  const counter = new Counter({ name: 'new_total', help: 'Help.', labelNames: ['limit'], registers });
  const gauge = new Gauge({ name: 'new_bytes', help: 'Help.', registers });
  keepDeprecatedName(
    counter,
    { name: 'old_total', replacement: 'new_total', labelNames: ['limit'] },
    registers,
  );
  keepDeprecatedName(gauge, { name: 'old_bytes', replacement: 'new_bytes' }, registers);
  counter.inc({ limit: 'a' }, 2);
  gauge.set(5);
  await registry.metrics();
  counter.inc({ limit: 'a' });
  const exposition = await registry.metrics();
  expect(exposition).toContain('# TYPE old_total counter\nold_total{limit="a"} 3\n');
  expect(exposition).toContain('# TYPE old_bytes gauge\nold_bytes 5\n');
  expect(exposition).toContain('# HELP old_bytes Deprecated, removed in 0.3: use `new_bytes`.');
});

test('questlog_build_info names the version and the commit', async () => {
  const exposition = await createMetricsRegistry({ version: '1.2.3', revision: 'd7cb0cf' }).metrics();
  const labels = `version="1.2.3",revision="d7cb0cf",node="${process.versions.node}"`;
  expect(exposition).toContain(`questlog_build_info{${labels}} 1`);
});

test('the use of a resource is read at each scrape', async () => {
  const registry = createMetricsRegistry();
  const resources = resourceMetrics(registry);
  let used = 1;
  resources.add({ resource: 'slots', limit: 6, used: () => used });
  await registry.metrics();
  used = 2;
  const exposition = await registry.metrics();
  expect(exposition).toContain('questlog_resource_used{resource="slots"} 2\n');
  expect(exposition).toContain('questlog_resource_limit{resource="slots"} 6\n');
});

test('in OpenMetrics, a counter’s family has no suffix, there are no empty lines, and the last line is # EOF', async () => {
  const registry = createMetricsRegistry();
  const registers = [registry];
  new Counter({ name: 'events_total', help: 'Events.', registers }).inc(2);
  new Gauge({ name: 'queue_bytes', help: 'Queue.', registers }).set(5);
  const text = toOpenMetrics(await registry.metrics());
  const counter = '# HELP events Events.\n# TYPE events counter\nevents_total 2\n';
  expect(text).toMatch(
    new RegExp(`${counter}# HELP queue_bytes Queue.\n# TYPE queue_bytes gauge\nqueue_bytes 5\n# EOF\n$`),
  );
  expect(text).not.toContain('\n\n');
});
