/**
 * Tests a loss of ClickHouse under load. First, the test follows clickhouse-lost.md with a backup from backup.md. Then it
 * restores an older snapshot of the disk. In both cases, the commits of the projector are ahead of the restored tables.
 */
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type EngineProcess, startEngineProcess } from '@questlog/runtime/clickhouse/chdb/engineProcess';
import { brokerJars } from '@questlog/runtime/log/kafka/testing/brokerJars';
import { freePorts } from '@questlog/runtime/log/kafka/testing/brokerProcess';
import { describeKafka } from '@questlog/runtime/log/kafka/testing/engines';
import { silentLogger } from '@questlog/runtime/process/logger';
import { GROUPS, TOPICS } from '@questlog/schemas/topics/topics';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { eventually } from '../e2e/builders.ts';
import { ownEnvironment } from '../e2e/product.ts';
import { seedOfRun } from '../faults/seeded.ts';
import { CLICKHOUSE_CLIENT, followPage, type Hands, replaceCommands } from '../runbooks/followPage.ts';
import { auditDeployment, keepSecondRows } from './auditDeployment.ts';
import { startTrial, type Trial } from './trial.ts';

const OPERATING = fileURLToPath(new URL('../../docs/operating', import.meta.url));
const START_WITHIN_MS = 300_000;
const RUN_WITHIN_MS = 900_000;
const CAUGHT_UP_WITHIN_MS = 120_000;
const UNLINKED_REQUESTS = 40;
const NO_LAG = `questlog_projector_lag_records{topic="${TOPICS.sessions}"} 0\n`;
/** Required time without lag. It is longer than the 5 s after which a projector measures its lag again. */
const NO_LAG_FOR_MS = 6_000;
const ACCOUNT = { username: 'questlog', password: 'of-this-test' };
const seed = seedOfRun();

/** Programs that replace commands of the page. The command of Kafka starts the class from the jars of Kafka. */
const COMMANDS = {
  ...CLICKHOUSE_CLIENT,
  'kafka-consumer-groups.sh': `java -cp "$KAFKA_JARS" org.apache.kafka.tools.consumer.group.ConsumerGroupCommand "$@"`,
};

describeKafka(`a ClickHouse that is lost (QUESTLOG_SEED=${seed})`, (engines) => {
  const folder = mkdtempSync(join(tmpdir(), 'questlog-lost-'));
  const [directory, backups, snapshot] = ['clickhouse', 'backups', 'snapshot'].map((name) =>
    join(folder, name),
  ) as [string, string, string];
  let port = 0;
  /** Admin port of the ingest that is started after the loss. The environment of the shell contains the port from the start. */
  let adminPort = 0;
  let clickhouse: EngineProcess;
  let trial: Trial;
  let env: NodeJS.ProcessEnv;

  async function startClickHouse(): Promise<void> {
    const reader = { username: 'reader', password: ACCOUNT.password };
    clickhouse = await startEngineProcess({ directory, port, ...ACCOUNT, reader, backups }, silentLogger);
    port = Number(new URL(clickhouse.url).port);
  }

  beforeAll(async () => {
    for (const path of [directory, backups]) mkdirSync(path);
    await startClickHouse();
    const { username, password } = ACCOUNT;
    const clickhouseUrl = `http://${username}:${password}@127.0.0.1:${port}/questlog`;
    trial = await startTrial(
      { ...engines, clickhouseUrl },
      ['ingest', 'operations', 'linker', 'projector'],
      seed,
    );
    [adminPort = 0] = await freePorts(1);
    const jars = await brokerJars();
    env = {
      ...ownEnvironment(),
      PATH: replaceCommands(folder, COMMANDS),
      KAFKA_JARS: 'classPath' in jars ? jars.classPath : '',
      KAFKA_BROKERS: engines.brokers,
      CLICKHOUSE: new URL('/', clickhouseUrl).href,
      DATABASE: trial.deployment.name,
      BACKUPS: backups,
      QUESTLOG_PREFIX: trial.deployment.prefix,
      QUESTLOG_ADMIN_URL: `http://127.0.0.1:${adminPort}`,
      QUESTLOG_ADMIN_TOKEN: `qla_of_the_tests_${trial.deployment.name}`,
    };
  }, START_WITHIN_MS);
  afterAll(async () => {
    try {
      await trial?.end();
    } finally {
      try {
        await clickhouse?.close();
      } finally {
        rmSync(folder, { recursive: true, force: true });
      }
    }
  });

  /** Deletes ClickHouse. At this time, the projector is ahead of the backup, and the linker has not processed all events. */
  async function lose(): Promise<void> {
    const { deployment, load, projected } = trial;
    await trial.waitForProgress();
    for (const linker of deployment.running('linker')) await linker.kill();
    const sent = load.ledger.requests.length;
    await eventually(
      async () => load.ledger.requests.length,
      (requests) => requests > sent + UNLINKED_REQUESTS,
      CAUGHT_UP_WITHIN_MS,
    );
    await load.stop();
    await eventually(() => projected.poll(), Boolean, CAUGHT_UP_WITHIN_MS);
    await clickhouse.close();
    rmSync(directory, { recursive: true });
  }

  /**
   * Starts the services in the order of the page. @param others the number of partitions for which the projector must report
   * restored tables.
   */
  async function start(others: number): Promise<void> {
    const { deployment, load } = trial;
    await keepSecondRows(deployment);
    // Starts the linker before the projector, so that the linker reads tables that the projector has not filled yet.
    await deployment.start('linker');
    const projector = await deployment.start('projector');
    await eventually(
      async () => projector.stderr().split('\n').filter(reportsRestored).length,
      (lines) => lines >= others,
      CAUGHT_UP_WITHIN_MS,
    );
    let sinceMs = Number.POSITIVE_INFINITY;
    await eventually(
      async () => {
        const metrics = (await projector.admin('GET', '/metrics')).text();
        sinceMs = metrics.includes(NO_LAG) ? Math.min(sinceMs, Date.now()) : Number.POSITIVE_INFINITY;
        return { forMs: Date.now() - sinceMs };
      },
      ({ forMs }) => forMs >= NO_LAG_FOR_MS,
      CAUGHT_UP_WITHIN_MS,
    );
    await Promise.all([
      deployment.start('operations', { QUESTLOG_ADMIN_PORT: String(adminPort) }),
      deployment.start('ingest'),
    ]);
    load.start();
    await trial.waitForProgress();
  }

  const hands: Hands = {
    lose,
    stop: async () => void (await trial.deployment.stop()),
    emptyClickHouse: startClickHouse,
    start: async () => {
      const commits = await trial.log.committed(GROUPS.projectSessions, TOPICS.sessions);
      await start(commits.filter((commit) => commit !== undefined).length);
    },
    caughtUp: () => trial.settle(),
    loseAndTakeSnapshot: async () => {
      await clickhouse.close();
      cpSync(directory, snapshot, { recursive: true });
      await startClickHouse();
      await keepSecondRows(trial.deployment);
      trial.load.start();
      await lose();
      await trial.deployment.stop();
      cpSync(snapshot, directory, { recursive: true });
      await startClickHouse();
    },
    startAgain: async () => {
      await start(0);
      await trial.settle();
    },
  };

  test(
    'has every acknowledged event and every link once after a restore from a backup and from a snapshot',
    async () => {
      await trial.waitForProgress();
      const [, backup = ''] = pageOf('backup.md').split('## Kafka and ClickHouse');
      await followPage(backup, {}, env);
      await followPage(pageOf('runbooks/clickhouse-lost.md'), hands, env);
      const { findings, events, links } = await auditDeployment(trial.deployment, trial.load);
      console.log(`a lost ClickHouse: ${events} events and ${links} links`);
      expect(findings).toEqual([]);
      expect(events).toBeGreaterThan(500);
      expect(links).toBeGreaterThan(50);
    },
    RUN_WITHIN_MS,
  );
});

function reportsRestored(line: string): boolean {
  return line.includes('tables_are_others') && line.includes(`"${TOPICS.sessions}"`);
}

function pageOf(path: string): string {
  return readFileSync(join(OPERATING, path), 'utf8');
}
