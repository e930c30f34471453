/** Tests the rules with a real Prometheus that scrapes a running Questlog. */
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { fillWithTables } from '@questlog/runtime/clickhouse/chdb/testing/migratedFolder';
import { freePorts } from '@questlog/runtime/log/kafka/testing/brokerProcess';
import { expect, onTestFinished, test } from 'vitest';
import { aProject, events, eventually } from '../e2e/builders.ts';
import { startProduct } from '../e2e/product.ts';
import { findProgram } from '../games/gamePages.ts';
import { smallDisk } from '../smallDisk.ts';
import { holdStreams } from './heldStreams.ts';
import { type Sample, startPrometheus } from './prometheus.ts';

const program = findProgram('prometheus');
if (program === undefined) console.log('skipped: this test needs Prometheus (Debian package prometheus)');
const WITHIN_MS = 60_000;
const MIB = 1024 * 1024;
const disk = smallDisk(192 * MIB);
if (disk.lacking !== undefined)
  console.warn(`skipped: QuestlogDiskNearlyFull does not fire, because ${disk.lacking}`);
/** Far below a tenth of the disk, because ClickHouse frees some MiB by deleting merged parts. */
const LEFT_BYTES = 8 * MIB;

test.skipIf(program === undefined)('alerts fire during a failure only', async () => {
  const [port] = await freePorts(1);
  const dataDir = join(disk.path, 'data');
  fillWithTables(join(dataDir, 'clickhouse'));
  const options = { dataDir, env: { QUESTLOG_ADMIN_PORT: String(port) } };
  let product = await startProduct(options);
  onTestFinished(async () => void (await product.stop()));
  const prometheus = await startPrometheus(program ?? '', { targets: [`127.0.0.1:${port}`] });
  onTestFinished(prometheus.stop);
  const firing = (expected: readonly string[]) =>
    eventually(prometheus.firing, (found) => String(found) === String(expected), WITHIN_MS);

  const project = await aProject(product, { revision: 'B' });
  const objectives = async () => {
    expect((await project.post(events(3))).status).toBe(201);
    return await prometheus.query('{__name__=~"questlog:.*5m"}');
  };
  const namesOf = (found: readonly Sample[]) => found.map(({ metric }) => metric['__name__']).toSorted();
  const healthy = await eventually(
    objectives,
    (found) => found.length === 2 && found.every(isZero),
    WITHIN_MS,
  );
  expect(namesOf(healthy)).toEqual([
    'questlog:event_requests_failed:ratio_rate5m',
    'questlog:projection_late:ratio5m',
  ]);
  expect(await prometheus.firing()).toEqual([]);

  const limits = { eventsPerSecond: 1, burstSeconds: 1 };
  await product.admin('PATCH', `/admin/projects/${project.projectId}`, { limits });
  const limited = async () => {
    await project.post(events(100));
    return await prometheus.firing();
  };
  await eventually(limited, (found) => String(found) === 'QuestlogRateLimited', WITHIN_MS);
  await firing([]);

  const ballast = disk.lacking === undefined ? disk.fill({ leaveBytes: LEFT_BYTES }) : undefined;
  const release = await holdStreams(product);
  await firing([...(ballast === undefined ? [] : ['QuestlogDiskNearlyFull']), 'QuestlogResourceSaturated']);
  release();
  if (ballast !== undefined) rmSync(ballast);
  await firing([]);

  await product.kill();
  await firing(['QuestlogAbsent', 'QuestlogServiceAbsent']);
  product = await startProduct(options);
  await firing([]);
});

function isZero({ value: [, value] }: Sample): boolean {
  return Number(value) === 0;
}
