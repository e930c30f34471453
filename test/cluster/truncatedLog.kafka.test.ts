/**
 * Tests a truncated log. A broker loses the last events twice: while all services run, and while the projector and the linker
 * are stopped. Stored rows of lost events stay and are reported. New records at the same offsets are stored and linked once. The
 * counts stay correct.
 */

import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startDamageableBroker } from '@questlog/runtime/log/kafka/testing/damageableBroker';
import { describeKafka } from '@questlog/runtime/log/kafka/testing/engines';
import { TOPICS } from '@questlog/schemas/topics/topics';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { aKey, aProject, events, eventually, type TestProject } from '../e2e/builders.ts';
import { bugsIn, ownEnvironment } from '../e2e/product.ts';
import { auditCounts, storedRows } from '../faults/audit.ts';
import { isSame, joinAndLinks } from '../faults/joinedLinks.ts';
import { CLICKHOUSE_CLIENT, followPage, type Hands, replaceCommands } from '../runbooks/followPage.ts';
import { auditLinks, stoppedTopic } from './auditDeployment.ts';
import { Deployment, type Service } from './deployment.ts';

/** Includes the wait for late inserts before a repair, at most 35 s. */
const WITHIN_MS = 120_000;
/** Time limit for the start of two brokers and three services while other tests run. */
const START_WITHIN_MS = 300_000;
const LOST = 3;

interface Append {
  readonly id: string;
  readonly partition: number;
  readonly offset: number;
}

describeKafka('events that a broker has lost', (engines) => {
  let broker: Awaited<ReturnType<typeof startDamageableBroker>>;
  let deployment: Deployment;
  let ingest: Service;
  let studio: TestProject;
  /** Ids of the events that got a 201 response. */
  const acknowledged = new Set<string>();
  /** Append ids of the lost records, one list for each truncation. */
  const lost: string[][] = [];

  beforeAll(async () => {
    broker = await startDamageableBroker({ hasSecondBroker: true });
    if (broker === undefined) return;
    deployment = new Deployment({ ...engines, brokers: broker.address });
    [ingest] = (await deployment.startAll('ingest', 'operations', 'linker', 'projector')) as [Service];
    await broker.takeOver(deployment.prefix + TOPICS.events);
    studio = await aProject(ingest, { revision: 'B' });
  }, START_WITHIN_MS);
  afterAll(async () => {
    await deployment?.remove();
    await broker?.stop();
  });

  /** Sends requests with two events each. The second event of a request belongs to the session of the report. */
  async function play(requests: number): Promise<void> {
    for (let n = 0; n < requests; n++) {
      // Retries with the same key, because a truncated broker rejects the first request of each producer.
      const key = { 'Idempotency-Key': aKey() };
      const post = () => studio.post([...events(1), ...events(1, { sessionId: studio.sessionId })], key);
      const answer = await eventually(post, ({ status }) => status < 300, WITHIN_MS);
      for (const { id } of answer.json()) acknowledged.add(id);
    }
  }

  async function settled(): Promise<void> {
    const count = () =>
      deployment.sql<{ events: number }>('SELECT toInt32(uniqExact(id)) AS events FROM events');
    await eventually(count, ([row]) => row?.events === acknowledged.size, WITHIN_MS);
    await eventually(() => joinAndLinks(deployment), isSame, WITHIN_MS);
  }

  /** Returns the last appends of the log, the newest append first. */
  async function appends(): Promise<Append[]> {
    return await deployment.sql<Append>(
      `SELECT append_id AS id, log_partition AS partition, toFloat64(log_offset) AS offset FROM appends
       WHERE log_id NOT IN (SELECT orphan_id FROM truncations) ORDER BY log_offset DESC LIMIT ${LOST}`,
    );
  }

  async function truncateLast(whileDown?: () => Promise<unknown>): Promise<void> {
    const lastAppends = await appends();
    const { partition, offset } = lastAppends.at(-1) ?? { partition: 0, offset: 0 };
    lost.push(lastAppends.map(({ id }) => id).toSorted());
    await broker?.truncate(deployment.prefix + TOPICS.events, partition, offset, whileDown);
  }

  async function follow(page: string, hands: Hands): Promise<void> {
    const folder = mkdtempSync(join(tmpdir(), 'questlog-page-'));
    onTestFinished(() => rmSync(folder, { recursive: true }));
    const [operations] = deployment.running('operations');
    const [projector] = deployment.running('projector');
    await followPage(readFileSync(new URL(`../../docs/operating/${page}`, import.meta.url), 'utf8'), hands, {
      ...ownEnvironment(),
      ADMIN: projector?.adminUrl,
      PATH: replaceCommands(folder, CLICKHOUSE_CLIENT),
      CLICKHOUSE: new URL('/', engines.clickhouseUrl).href,
      DATABASE: deployment.name,
      QUESTLOG_ADMIN_URL: operations?.adminUrl,
      QUESTLOG_ADMIN_TOKEN: deployment.settings['QUESTLOG_ADMIN_TOKEN'],
    });
  }

  async function followOutage(): Promise<void> {
    const [failed, mended] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const truncated = truncateLast(() => {
      failed.resolve();
      return mended.promise;
    });
    const [projector] = deployment.running('projector');
    const hands = {
      break: async () => {
        await failed.promise;
        const warning = async () => (await projector?.readyz())?.warnings['partitions'];
        await eventually(warning, (text) => text !== undefined, WITHIN_MS);
      },
      mend: async () => {
        mended.resolve();
        await truncated;
      },
    };
    await follow('outages.md', hands).finally(mended.resolve);
  }

  async function truncations() {
    const rows = await deployment.sql<{ ids: string[]; records: number; rows: number; repaired: number }>(
      `SELECT ids, toInt32(records) AS records, toInt32(stored_rows) AS rows, repaired FROM truncations FINAL
       WHERE topic = '${TOPICS.events}' ORDER BY found_at`,
    );
    return rows.map((row) => ({ ...row, ids: row.ids.toSorted() }));
  }

  const expectedTruncations = () => lost.map((ids) => ({ ids, records: LOST, rows: 2 * LOST, repaired: 1 }));

  test('stay in ClickHouse and are reported, with running and with stopped services, and later events are stored once', async ({
    skip,
  }) => {
    if (broker === undefined) skip('no broker can be started here; the line above says why');
    await studio.report({ sessionId: studio.sessionId });
    await play(5);
    await settled();

    await followOutage();
    await play(2 * LOST);
    await settled();
    expect(await truncations()).toEqual(expectedTruncations());
    const [projector] = deployment.running('projector');
    const warned = async () => (await projector?.readyz())?.warnings['log_truncated'];
    expect(await eventually(warned, (sentence) => sentence !== undefined)).toContain(TOPICS.events);
    expect((await ingest.readyz()).status).toBe(200);
    await follow('truncation.md', {});

    for (const name of ['linker', 'projector'] as const)
      for (const service of deployment.running(name)) expect(await service.stop()).toBe(0);
    await truncateLast();
    await play(1);
    await deployment.startAll('linker', 'projector');
    await play(LOST);
    await settled();
    expect(await truncations()).toEqual(expectedTruncations());

    const { code, stdout, stderr } = await deployment.questlog('verify', '--from', '30m', '--json');
    expect([code, JSON.parse(stdout)], stderr).toMatchObject([0, { differences: 0, cut: 2 * 2 * LOST }]);
    const joined = await joinAndLinks(deployment);
    const codes = await deployment.stop();
    const rows = await storedRows(deployment);
    expect(rows.map(({ id }) => id).toSorted()).toEqual([...acknowledged].toSorted());
    expect([
      ...codes.flatMap((exit) => (exit === 0 ? [] : `a service ended with ${exit}`)),
      ...deployment.services.flatMap((service) => bugsIn(service.stderr())),
      ...(await auditCounts(deployment, rows)),
      ...(await auditLinks((topic) => stoppedTopic(deployment, topic), joined)),
    ]).toEqual([]);
  });
});
