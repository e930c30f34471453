import { Counter, Gauge } from 'prom-client';
import { expect, test } from 'vitest';
import { createMetricsRegistry, keepDeprecatedName } from './metrics.ts';

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

test('questlog_build_info names the version', async () => {
  const exposition = await createMetricsRegistry({ version: '1.2.3' }).metrics();
  expect(exposition).toContain(`questlog_build_info{version="1.2.3",node="${process.versions.node}"} 1`);
});
