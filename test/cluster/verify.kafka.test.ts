/**
 * Tests the ledger of a cluster. Two ingests, rejections, duplicates, a dead letter, and expired records cause no difference.
 * Rows in ClickHouse that are missing, duplicate, or miscounted are reported with their partition and offset.
 */
import { randomUUID } from 'node:crypto';
import { readToEnd } from '@questlog/runtime/log/contract/harness';
import { deployments } from '@questlog/runtime/log/kafka/testing/deployment';
import { describeKafka } from '@questlog/runtime/log/kafka/testing/engines';
import type { Log } from '@questlog/runtime/log/log';
import { TOPICS } from '@questlog/schemas/topics/topics';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { aKey, aProject, events, eventually, onto, type TestProject } from '../e2e/builders.ts';
import { Deployment, type Service } from './deployment.ts';
import { logOf } from './trial.ts';

interface Position {
  readonly partition: number;
  readonly offset: number;
}

describeKafka('the ledger of a cluster', (engines) => {
  const { admin } = deployments(engines.brokers);
  let deployment: Deployment;
  let log: Log;
  let one: Service;
  let other: Service;

  beforeAll(async () => {
    deployment = new Deployment(engines);
    [one, other] = (await deployment.startAll('ingest', 'ingest', 'operations', 'projector')) as [
      Service,
      Service,
    ];
    log = await logOf(deployment);
  });
  afterAll(async () => {
    await log?.close();
    await deployment?.remove();
  });

  /** Creates a project. Resolves when both ingests have received the project. */
  async function createProject(): Promise<TestProject> {
    const studio = await aProject(one, { revision: 'B' });
    const there = () => onto(studio, other).get(`/v1/sessions/${studio.sessionId}`);
    await eventually(there, ({ status }) => status === 200);
    return studio;
  }

  /** Sends a request. Returns the position of its record after ClickHouse has stored the events. */
  async function stored(studio: TestProject, count: number): Promise<Position & { id: string }> {
    const answer = await studio.post(events(count));
    expect(answer.status, answer.text()).toBe(201);
    const [{ id }] = answer.json();
    const readPosition = () =>
      deployment.sql<Position>(
        `SELECT log_partition AS partition, toFloat64(log_offset) AS offset FROM events WHERE id = '${id}'`,
      );
    const [place = { partition: -1, offset: -1 }] = await eventually(
      readPosition,
      ({ length }) => length === 1,
    );
    return { ...place, id };
  }

  async function verify(...args: string[]) {
    const { code, stdout, stderr } = await deployment.questlog('verify', '--from', '30m', '--json', ...args);
    const lines = stdout
      .trim()
      .split('\n')
      .map((line) => (line === '' ? {} : JSON.parse(line)));
    return { code, stderr, differences: lines.slice(0, -1), summary: lines.at(-1) };
  }

  test('balances with rejections, duplicates, a dead letter, and expired records', async () => {
    const [studio, stranger] = [await createProject(), await createProject()];
    const expired = await stored(studio, 2);
    const keyed = { 'Idempotency-Key': aKey() };
    const both = [one, other].map((ingest) => onto(studio, ingest).post(events(3), keyed));
    const [ids, again] = (await Promise.all(both)).map((answer) =>
      answer.json().map(({ id }: { id: string }) => id),
    );
    expect(again).toEqual(ids);
    expect((await onto(studio, other).post([{ eventType: 7 }])).status).toBe(400);
    const last = await stored(studio, 1);
    const { partition } = expired;
    const record = (await readToEnd(log, TOPICS.events))[partition]?.find(
      ({ offset }) => offset === last.offset,
    );
    if (record === undefined) throw new Error('the last record is not in the log');
    await log.append(TOPICS.events, partition, [
      record,
      { key: stranger.tenantId, value: Buffer.from('no Avro') },
    ]);
    const topic = deployment.prefix + TOPICS.events;
    const before = [{ partition, offset: String(expired.offset + 1) }];
    await admin(async (client) => {
      // Loads the metadata of the topic, because the client knows the leaders only of topics that were requested before.
      await client.fetchTopicOffsets(topic);
      await client.deleteTopicRecords({ topic, partitions: before });
    });

    const sums = ['accepted', 'logged', 'projected', 'repeated', 'missing', 'unlogged'];
    const ledger = () =>
      deployment.sql<Record<string, number>>(
        `SELECT ${sums.map((name) => `toInt32(sum(${name}_events)) AS ${name}`)}, toInt32(sum(dead_records)) AS dead,
           toInt32(arraySum(mapValues(sumMap(outcomes))) - sum(outcomes['accepted'] + outcomes['replayed'])) AS refused
         FROM ledger WHERE tenant_id IN ('${studio.tenantId}', '${stranger.tenantId}')`,
      );
    const isBalanced = ([of = {}]: Record<string, number>[]): boolean => {
      const { accepted = 0, logged = 0, projected = 0, repeated = 0, dead, refused } = of;
      const isWritten = accepted >= 6 && accepted === logged && logged + 1 === projected + repeated;
      return isWritten && dead === 1 && refused === 1;
    };
    const [even = {}] = await eventually(ledger, isBalanced, 20_000);
    expect(even).toMatchObject({ projected: 6, missing: 0, unlogged: 0, refused: 1 });
    const { code, stderr, differences, summary } = await verify();

    expect([code, differences], stderr).toEqual([0, []]);
    expect(summary).toMatchObject({
      ...{ isWhole: true, expired: 2, cut: 0 },
      projected: { events: 4 },
      repeated: { events: even['repeated'] },
      dead: { records: 1 },
      notYet: { records: 0 },
    });
  });

  test('reports missing, duplicate, and miscounted rows with their partition and offset', async () => {
    const studio = await createProject();
    const [incomplete, gone, twice] = [
      await stored(studio, 2),
      await stored(studio, 3),
      await stored(studio, 2),
    ];
    const own = ['--tenant', studio.tenantId];
    const well = await verify(...own);
    expect([well.code, well.differences], well.stderr).toEqual([0, []]);

    const of = ({ partition, offset }: Position) => `log_partition = ${partition} AND log_offset = ${offset}`;
    const taken = [`id = '${incomplete.id}'`, of(gone)];
    for (const where of taken) {
      await deployment.command(`ALTER TABLE events DELETE WHERE ${where} SETTINGS mutations_sync = 2`);
    }
    // Stops merges, because a merge would remove the duplicate row before `verify` counts the row.
    await deployment.command('SYSTEM STOP MERGES events');
    await deployment.command(
      `INSERT INTO events SETTINGS insert_deduplication_token = '${randomUUID()}'
       SELECT * FROM events WHERE id = '${twice.id}'`,
    );
    await deployment.command(
      `INSERT INTO event_counts_by_partition (tenant_id, project_id, minute, event_type, log_id, log_partition, count, last_offset)
       VALUES ('${studio.tenantId}', '${studio.projectId}', toStartOfMinute(now() - INTERVAL 10 MINUTE), 'x', '${log.id}', 0, 7, 0)`,
    );
    const { code, differences, summary } = await verify(...own);

    const place = ({ partition, offset }: Position) => ({ partition, offset });
    expect(code).toBe(1);
    expect(differences).toEqual(
      expect.arrayContaining([
        expect.objectContaining({ what: 'missing', expected: 2, found: 1, ...place(incomplete) }),
        expect.objectContaining({ what: 'missing', expected: 3, found: 0, ...place(gone) }),
        expect.objectContaining({ what: 'twice', expected: 2, found: 3, ...place(twice) }),
        expect.objectContaining({ what: 'miscounted', expected: 0, found: 7 }),
      ]),
    );
    // Ignores differences in counts. If the minute of the deleted events is over, the count of that minute differs too.
    expect(differences.filter(({ what }) => what !== 'miscounted')).toHaveLength(3);
    expect(summary).toMatchObject({ differences: differences.length, isWhole: true });
  });
});
