/**
 * Tests the alerts in a cluster with a real Prometheus and Alertmanager. Breaks the deployment, and expects that the alerts of
 * the fault fire, that no other critical alert fires, and that the alerts end after the repair. Several faults run at the same
 * time, because most of the time is spent waiting.
 */
import { execFileSync } from 'node:child_process';
import {
  type DamageableBroker,
  startDamageableBroker,
} from '@questlog/runtime/log/kafka/testing/damageableBroker';
import { describeKafka } from '@questlog/runtime/log/kafka/testing/engines';
import { plainClient } from '@questlog/runtime/log/kafka/testing/plainClient';
import { createCodec } from '@questlog/runtime/registry/registry';
import { registryAt } from '@questlog/runtime/registry/testing/registryStub';
import { aReportLink } from '@questlog/schemas/fixtures/builders';
import { partitionOf } from '@questlog/schemas/partition';
import { reportLinks } from '@questlog/schemas/topics/reportLinks';
import { GROUPS, TOPICS } from '@questlog/schemas/topics/topics';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { anUnknownId, aProject, events, eventually, type TestProject } from '../e2e/builders.ts';
import { bugsIn } from '../e2e/product.ts';
import { type ClickHouseProxy, startClickHouseProxy } from '../faults/proxy/clickhouseProxy.ts';
import { findProgram } from '../games/gamePages.ts';
import { unansweredQueries } from '../monitoring/dashboards/queries.ts';
import {
  type Alertmanager,
  type Prometheus,
  startAlertmanager,
  startPrometheus,
} from '../monitoring/prometheus.ts';
import { ProvokedAlerts } from '../monitoring/provokedAlerts.ts';
import { Deployment, type Service, type ServiceName } from './deployment.ts';
import { logOf } from './trial.ts';

const [prometheusProgram, alertmanagerProgram, promtool] = [
  'prometheus',
  'prometheus-alertmanager',
  'promtool',
].map(findProgram);
const hasPrograms = prometheusProgram !== undefined && alertmanagerProgram !== undefined;
if (!hasPrograms) console.log('skipped: this test needs Prometheus and Alertmanager (Debian packages)');

const START_WITHIN_MS = 300_000;
const WITHIN_MS = 150_000;
/** At this retention time, a lag of 30 s is a tenth of the retention time. */
const SHORT_RETENTION_MS = 300_000;
/** Open reports of a partition, just above the threshold of the alert. */
const OPEN_REPORTS = 45_001;
const REPORTS_PER_APPEND = 1_000;
/** Parts of a partition, just above the threshold of the alert. */
const PARTS = 901;

describeKafka('alerts', (engines) => {
  let broker: DamageableBroker | undefined;
  let deployment: Deployment;
  let clickhouseOfLinker: ClickHouseProxy;
  let clickhouseOfOperations: ClickHouseProxy;
  let alertmanager: Alertmanager;
  let prometheus: Prometheus;
  let game: TestProject;
  let limited: TestProject;
  let crowd: TestProject;
  const services = {} as Record<ServiceName, Service>;
  let alerts: ProvokedAlerts;
  let isEnding = false;

  beforeAll(async () => {
    if (!hasPrograms) return;
    broker = await startDamageableBroker({ hasSecondBroker: true });
    if (broker === undefined) return;
    deployment = new Deployment({ ...engines, brokers: broker.address });
    clickhouseOfLinker = await startClickHouseProxy(engines.clickhouseUrl);
    clickhouseOfOperations = await startClickHouseProxy(engines.clickhouseUrl);
    const through = ({ url }: ClickHouseProxy) => ({
      CLICKHOUSE_URL: new URL(`/${deployment.name}`, url).href,
    });
    const started = await Promise.all([
      deployment.start('ingest'),
      deployment.start('operations', through(clickhouseOfOperations)),
      deployment.start('projector'),
      deployment.start('linker', through(clickhouseOfLinker)),
    ]);
    for (const service of started) services[service.name] = service;
    await broker.takeOver(deployment.prefix + TOPICS.sessions);
    await broker.setRetention(deployment.prefix + TOPICS.reportLinks, SHORT_RETENTION_MS);
    game = await aProject(services.ingest, { revision: 'A' });
    limited = await aProject(services.ingest, { revision: 'B' });
    crowd = await aProject(services.ingest, { revision: 'B' });
    const limits = { eventsPerSecond: 1, burstSeconds: 1 };
    await services.operations.admin('PATCH', `/admin/projects/${limited.projectId}`, { limits });
    alertmanager = await startAlertmanager(alertmanagerProgram ?? '');
    alerts = new ProvokedAlerts(alertmanager);
    prometheus = await startPrometheus(prometheusProgram ?? '', {
      targets: started.map(({ adminUrl }) => new URL(adminUrl).host),
      alertmanager: alertmanager.address,
    });
  }, START_WITHIN_MS);
  afterAll(async () => {
    isEnding = true;
    console.log(alerts?.table());
    await prometheus?.stop();
    await alertmanager?.stop();
    await deployment?.remove();
    clickhouseOfLinker?.close();
    clickhouseOfOperations?.close();
    await broker?.stop();
  });

  async function sendEvents(): Promise<void> {
    const post = () => game.post(events(3, { sessionId: game.sessionId })).catch(() => undefined);
    await repeatUntil(() => isEnding, post);
  }

  /** Repeats `work` about every half second. */
  async function repeatUntil(hasEnded: () => boolean, work: () => unknown): Promise<void> {
    const poll = async (): Promise<boolean> => {
      await work();
      return hasEnded();
    };
    await eventually(poll, Boolean, Number.POSITIVE_INFINITY);
  }

  /** The limits contain 30 to 45 s, because ingest cannot append events while another fault stops a broker. */
  async function breakProjector(): Promise<void> {
    const { projector } = services;
    await alerts.provoke({
      fault: 'the projector does not respond',
      alerts: {
        'QuestlogServiceAbsent projector': [5, 5],
        QuestlogProjectionLate: [80, 60],
        QuestlogProjectionSometimesLate: [90, 90],
      },
      begin: () => projector.freeze(),
      repair: () => projector.thaw(),
    });
  }

  /**
   * Operations compares the counts once a minute, and the first time only notes the end of the log. The second fault begins as soon
   * as the alert of the first fault fires.
   */
  async function loseEvents(): Promise<void> {
    const minuteS = Math.floor(Date.now() / 60_000 - 20) * 60;
    const count = (events: number, version: number) =>
      deployment.command(
        `INSERT INTO received_by_process (tenant_id, minute, what, process_id, count, events, version)
         SELECT '${game.tenantId}', toDateTime(${minuteS}, 'UTC'), 'logged', '${game.projectId}', 1, ${events}, ${version}`,
      );
    let refusal: ReturnType<ClickHouseProxy['refuse']> | undefined;
    await alerts.provoke({
      fault: 'ClickHouse lacks events',
      alerts: { QuestlogEventsMissing: [120, 60] },
      begin: () => count(5, 1),
      repair: async () => {
        await count(0, 2);
        refusal = clickhouseOfOperations.refuse(/^(?![\s\S]*FROM ledger\b)/);
      },
    });
    await alerts.provoke({
      fault: 'ClickHouse does not answer queries about the ledger',
      alerts: { QuestlogMeasurementMissing: [70, 60] },
      begin: () => undefined,
      repair: () => refusal?.mend(),
    });
  }

  async function addDeadLetter(): Promise<void> {
    const { operations } = services;
    const topic = deployment.prefix + TOPICS.audit;
    const record = { key: null, value: Buffer.from('no Avro'), headers: {} };
    const discard = async (): Promise<void> => {
      const { deadLetters } = (await operations.admin('GET', '/admin/dead-letters')).json();
      for (const { id } of deadLetters)
        expect((await operations.admin('DELETE', `/admin/dead-letters/${id}`)).status).toBeLessThan(300);
    };
    await alerts.provoke({
      fault: `a record of ${GROUPS.projectAudit} cannot be decoded`,
      alerts: { QuestlogDeadLetters: [40, 5] },
      begin: () => plainClient(broker?.address ?? '').appendBatch(topic, 0, record, 1),
      repair: discard,
    });
  }

  async function breakLinker(): Promise<void> {
    const { linker } = services;
    // Reports get a 503 while the broker of the sessions does not respond.
    const fileReport = () =>
      eventually(
        () => game.report({ sessionId: game.sessionId }),
        ({ status }) => status === 201,
        WITHIN_MS,
      );
    await alerts.provoke({
      fault: 'the linker does not respond',
      alerts: {
        'QuestlogServiceAbsent linker': [5, 5],
        QuestlogGroupBehind: [75, 10],
        QuestlogRecordsExpire: [45, 10],
      },
      begin: async () => {
        linker.freeze();
        await fileReport();
      },
      repair: () => linker.thaw(),
    });
    let refusal: ReturnType<ClickHouseProxy['refuse']> | undefined;
    await alerts.provoke({
      fault: 'ClickHouse does not answer lookups',
      alerts: { QuestlogLookupsFail: [20, 10], QuestlogLookupsWait: [40, 5] },
      begin: async () => {
        // The linker waits without lookups if ClickHouse does not return the ids of the tables.
        refusal = clickhouseOfLinker.refuse(/FROM system\.tables/);
        await fileReport();
      },
      repair: () => refusal?.mend(),
    });
  }

  /** Appends the reports to the log, because 45,001 requests would take minutes. */
  async function openReports(): Promise<void> {
    const { operations } = services;
    const { tenantId, projectId, sessionId } = crowd;
    const log = await logOf(deployment);
    const registry = registryAt(engines.registryUrl, {
      ...{ subjectPrefix: deployment.prefix, startTimeoutMs: WITHIN_MS },
    });
    const codec = await createCodec(registry, reportLinks);
    const partition = partitionOf(tenantId, 0, await log.partitionCount(TOPICS.reportLinks));
    const aRecord = () => {
      const receivedAt = Date.now();
      const report = aReportLink({ tenantId, projectId, sessionId, sessionLane: 0, receivedAt });
      return { key: tenantId, value: codec.encode(report) };
    };
    await alerts.provoke({
      fault: `${OPEN_REPORTS} reports are open`,
      // The linker needs CPU time for each report.
      alerts: { QuestlogOpenReportsNearLimit: [90, 10] },
      begin: async () => {
        for (let left = OPEN_REPORTS; left > 0; left -= REPORTS_PER_APPEND) {
          const length = Math.min(left, REPORTS_PER_APPEND);
          await log.append(TOPICS.reportLinks, partition, Array.from({ length }, aRecord));
        }
      },
      repair: () => operations.admin('POST', '/admin/erasures', { tenantId, projectId }),
    });
    await log.close();
  }

  /** Event requests with an unknown session read the topic of sessions to its end. */
  async function breakBroker(): Promise<void> {
    const [row] = await deployment.sql<{ partition: number; offset: number }>(
      `SELECT log_partition AS partition, toUInt32(log_offset) AS offset FROM sessions ORDER BY registered_at DESC LIMIT 1`,
    );
    const { partition, offset } = row ?? { partition: 0, offset: 0 };
    const restarted = Promise.withResolvers<void>();
    let truncated: Promise<void> | undefined;
    let isRepaired = false;
    // Does not wait for the appends of the sessions, which fail after up to 16 s. They must fail without long gaps.
    const registerSession = () => void game.session().catch(() => undefined);
    await Promise.all([
      alerts.provoke({
        fault: 'a broker fails',
        alerts: {
          QuestlogPartitionOutage: [45, 15],
          QuestlogAppendsSlow: [35, 15],
          QuestlogEventsFail: [20, 30],
          QuestlogSomeEventsFail: [35, 60],
        },
        begin: () => {
          const topic = deployment.prefix + TOPICS.sessions;
          truncated = broker?.truncate(topic, partition, offset, () => restarted.promise);
          void repeatUntil(() => isRepaired, registerSession);
        },
        repeat: () => game.post(events(1, { sessionId: anUnknownId() })),
        repair: async () => {
          restarted.resolve();
          isRepaired = true;
          await truncated;
        },
      }),
      alerts.provoke({
        fault: 'the broker restarts without its last records',
        alerts: { QuestlogLogTruncated: [15, 10] },
        begin: () => restarted.promise,
        repair: () => undefined,
      }),
    ]);
  }

  /** Ingest writes rejections to `reject_counts` every two seconds. */
  async function stopMerges(): Promise<void> {
    const table = 'reject_counts';
    const slow = { parts_to_delay_insert: 1, min_delay_to_insert_ms: 3_000, max_delay_to_insert: 3 };
    const changes = Object.entries(slow).map(([name, value]) => `${name} = ${value}`);
    await alerts.provoke({
      fault: 'ClickHouse does not merge parts, and delays inserts',
      alerts: { QuestlogTooManyParts: [35, 30], QuestlogInsertsSlow: [20, 10] },
      begin: async () => {
        await deployment.command(`SYSTEM STOP MERGES ${table}`);
        await deployment.command(
          `INSERT INTO ${table} (minute, code) SELECT now(), toString(number) FROM numbers(${PARTS})
           SETTINGS max_block_size = 1, min_insert_block_size_rows = 1, min_insert_block_size_bytes = 1, max_insert_threads = 1`,
        );
        await deployment.command(`ALTER TABLE ${table} MODIFY SETTING ${changes.join(', ')}`);
      },
      repeat: () => game.post([{ sessionId: game.sessionId, eventType: 7 }]),
      repair: async () => {
        await deployment.command(`ALTER TABLE ${table} RESET SETTING ${Object.keys(slow).join(', ')}`);
        await deployment.command(`SYSTEM START MERGES ${table}`);
        await deployment.command(`TRUNCATE TABLE ${table}`);
      },
    });
  }

  async function failRequests(): Promise<void> {
    await alerts.provoke({
      fault: 'a project exceeds its rate limit',
      alerts: { QuestlogRateLimited: [10, 5] },
      begin: () => undefined,
      repeat: () => limited.post(events(100)),
      repair: () => undefined,
    });
    await alerts.provoke({
      fault: 'a view is missing in ClickHouse',
      alerts: { QuestlogBugs: [40, 10] },
      begin: () => deployment.command('RENAME TABLE builds TO builds_away'),
      // Reads get a 503 while the projector does not respond, and then a 500.
      repeat: () => game.get('/v1/builds'),
      repair: () => deployment.command('RENAME TABLE builds_away TO builds'),
    });
  }

  test.skipIf(!hasPrograms)('fire during their fault, and only then', async ({ skip }) => {
    if (broker === undefined) skip('no broker can be started here; the line above says why');
    for (const { name, adminUrl } of deployment.services) {
      const input = await (await fetch(`${adminUrl}/metrics`)).text();
      expect([name, input]).toEqual([name, expect.stringContaining('questlog_resource_limit')]);
      execFileSync(promtool ?? '', ['check', 'metrics'], { input });
    }
    // A process that Prometheus has not scraped yet cannot become absent.
    for (const series of ['max by (group) (questlog_group_lag_seconds)', 'questlog_service_info'])
      await eventually(
        () => prometheus.query(series),
        ({ length }) => length >= Object.keys(services).length,
        WITHIN_MS,
      );
    const hasEnded = () => isEnding;
    const readAlerts = () => alerts.read();
    const watching = Promise.all([repeatUntil(hasEnded, readAlerts), sendEvents()]);

    await Promise.all([
      breakProjector(),
      loseEvents(),
      breakLinker(),
      breakBroker(),
      stopMerges(),
      failRequests().then(addDeadLetter),
    ]);
    const { operations } = services;
    await Promise.all([
      openReports(),
      alerts.provoke({
        fault: 'operations does not respond',
        alerts: { 'QuestlogServiceAbsent operations': [5, 5], QuestlogLagUnknown: [5, 10] },
        others: ['QuestlogProjectionLate'],
        begin: () => operations.freeze(),
        repair: () => operations.thaw(),
      }),
    ]);
    const all = Object.values(services);
    await alerts.provoke({
      fault: 'no process responds',
      alerts: { QuestlogAbsent: [5, 5], 'QuestlogServiceAbsent ingest': [5, 5] },
      others: [
        ...['operations', 'projector', 'linker'].map((name) => `QuestlogServiceAbsent ${name}`),
        ...['QuestlogLagUnknown', 'QuestlogProjectionLate'],
      ],
      begin: () => all.map((service) => service.freeze()),
      repair: () => all.map((service) => service.thaw()),
    });
    isEnding = true;
    await watching;
    expect([...alerts.unexpected]).toEqual([]);
    const bugs = deployment.services.flatMap(({ stderr }) => bugsIn(stderr()));
    expect(bugs.filter((line) => !line.includes('builds'))).toEqual([]);
  });

  test.skipIf(!hasPrograms)('the dashboards show values of several processes', async ({ skip }) => {
    if (broker === undefined) skip('no broker can be started here; the line above says why');
    const unanswered = async (): Promise<string[]> => {
      await game.post(events(3, { sessionId: game.sessionId }));
      return await unansweredQueries(prometheus, { ofCluster: false });
    };
    expect(await eventually(unanswered, ({ length }) => length === 0, WITHIN_MS)).toEqual([]);
  });
});
