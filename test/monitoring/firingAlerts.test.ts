/** Tests the rules with a real Prometheus and Alertmanager, and one process of Questlog. */
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { fillWithTables } from '@questlog/runtime/clickhouse/chdb/testing/migratedFolder';
import { freePorts } from '@questlog/runtime/log/kafka/testing/brokerProcess';
import { expect, onTestFinished, test } from 'vitest';
import { aProject, events, eventually, type TestProject } from '../e2e/builders.ts';
import { type Product, startProduct } from '../e2e/product.ts';
import { findProgram } from '../games/gamePages.ts';
import { smallDisk } from '../smallDisk.ts';
import { holdStreams } from './heldStreams.ts';
import { type Sample, startAlertmanager, startPrometheus } from './prometheus.ts';
import { ProvokedAlerts } from './provokedAlerts.ts';

const [program, alertmanagerProgram] = ['prometheus', 'prometheus-alertmanager'].map(findProgram);
const hasPrograms = program !== undefined && alertmanagerProgram !== undefined;
if (!hasPrograms) console.log('skipped: this test needs Prometheus and Alertmanager (Debian packages)');
const WITHIN_MS = 60_000;
const MIB = 1024 * 1024;
const disk = smallDisk(192 * MIB);
if (disk.lacking !== undefined)
  console.warn(`skipped: QuestlogDiskNearlyFull does not fire, because ${disk.lacking}`);
/** Far below a tenth of the disk, because ClickHouse frees some MiB by deleting merged parts. */
const LEFT_BYTES = 8 * MIB;

test.skipIf(!hasPrograms)('alerts fire during a failure only', async () => {
  const [port] = await freePorts(1);
  const dataDir = join(disk.path, 'data');
  fillWithTables(join(dataDir, 'clickhouse'));
  const options = { dataDir, env: { QUESTLOG_ADMIN_PORT: String(port) } };
  let product = await startProduct(options);
  onTestFinished(async () => void (await product.stop()));
  const alertmanager = await startAlertmanager(alertmanagerProgram ?? '');
  onTestFinished(alertmanager.stop);
  const prometheus = await startPrometheus(program ?? '', {
    targets: [`127.0.0.1:${port}`],
    alertmanager: alertmanager.address,
  });
  onTestFinished(prometheus.stop);

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

  const alerts = new ProvokedAlerts(alertmanager);
  let isEnding = false;
  const read = async (): Promise<boolean> => {
    await alerts.read();
    return isEnding;
  };
  const reading = eventually(read, Boolean, Number.POSITIVE_INFINITY);
  try {
    await Promise.all([exceedRateLimit(alerts, product, project), exhaustResources(alerts, product)]);
    await alerts.provoke({
      fault: 'the process is killed',
      alerts: { QuestlogAbsent: [5, 5], 'QuestlogServiceAbsent ingest': [5, 5] },
      others: ['operations', 'projector', 'linker'].map((name) => `QuestlogServiceAbsent ${name}`),
      begin: () => product.kill(),
      repair: async () => {
        product = await startProduct(options);
      },
    });
    expect([...alerts.unexpected]).toEqual([]);
    await eventually(prometheus.firing, ({ length }) => length === 0, WITHIN_MS);
  } finally {
    console.log(alerts.table());
    isEnding = true;
    await reading;
  }
});

async function exceedRateLimit(alerts: ProvokedAlerts, product: Product, project: TestProject) {
  const limits = { eventsPerSecond: 1, burstSeconds: 1 };
  await alerts.provoke({
    fault: 'a project exceeds its rate limit',
    alerts: { QuestlogRateLimited: [15, 10] },
    begin: () => product.admin('PATCH', `/admin/projects/${project.projectId}`, { limits }),
    repeat: () => project.post(events(100)),
    repair: () => undefined,
  });
}

async function exhaustResources(alerts: ProvokedAlerts, product: Product): Promise<void> {
  let release: () => void = () => undefined;
  await alerts.provoke({
    fault: '60 of 64 streams are open',
    alerts: { QuestlogResourceSaturated: [10, 5] },
    begin: async () => {
      release = await holdStreams(product);
    },
    repair: () => release(),
  });
  if (disk.lacking !== undefined) return;
  let ballast = '';
  await alerts.provoke({
    fault: `the disk has ${LEFT_BYTES / MIB} MiB left`,
    alerts: { QuestlogDiskNearlyFull: [10, 5] },
    begin: () => {
      ballast = disk.fill({ leaveBytes: LEFT_BYTES });
    },
    repair: () => rmSync(ballast),
  });
}

function isZero({ value: [, value] }: Sample): boolean {
  return Number(value) === 0;
}
