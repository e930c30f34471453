/** Tests that kcat and fastavro can read the records of Questlog. Questlog must link the reports that these tools write. */
import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { crc32 } from 'node:zlib';
import { deployments } from '@questlog/runtime/log/kafka/testing/deployment';
import { describeKafka } from '@questlog/runtime/log/kafka/testing/engines';
import { validJson } from '@questlog/schemas/fixtures/validJson';
import { partitionOf } from '@questlog/schemas/partition';
import { TOPICS } from '@questlog/schemas/topics/topics';
import { afterAll, beforeAll, beforeEach, expect, onTestFinished, test } from 'vitest';
import {
  aKey,
  anEvent,
  aProject,
  eventually,
  type ListedLink,
  rawEvent,
  type TestProject,
} from '../e2e/builders.ts';
import { collectOutput, end, ownEnvironment } from '../e2e/product.ts';
import { Deployment, type Service } from './deployment.ts';
import { findOtherTools, type KcatRecord, type OtherTools } from './kcatAndAvro.ts';

const EXAMPLE = fileURLToPath(new URL('../../examples/bug-tracker/kafka.ts', import.meta.url));
const PARTITIONS = 4;
const LINKED_WITHIN_MS = 60_000;
const OCCURRED_AT = '2026-11-21T12:08:56.148537Z';
const OCCURRED_MICROS = Date.parse('2026-11-21T12:08:56Z') * 1_000 + 148_537;

describeKafka('external tools', (engines) => {
  let tools: OtherTools;
  let deployment: Deployment;
  let ingest: Service;
  let lacks = false;

  beforeAll(async () => {
    const found = await findOtherTools(engines.brokers, engines.registryUrl);
    lacks = found === undefined;
    if (found === undefined) return;
    tools = found;
    deployment = new Deployment(engines);
    const services = await deployment.startAll('ingest', 'operations', 'linker', 'projector');
    ingest = services[0] as Service;
  });
  beforeEach(({ skip }) => {
    if (lacks) skip('kcat or fastavro is missing; see the line above');
  });
  afterAll(() => deployment?.remove());

  const { admin } = deployments(engines.brokers);
  const topicOf = (name: string): string => deployment.prefix + name;

  /** Reads the records of a tenant from a topic with kcat, and decodes the records with fastavro. */
  async function readBack(game: TestProject, name: string) {
    const records = (await tools.read(topicOf(name))).filter(({ key }) => key === game.tenantId);
    const decoded = await tools.decode(records.map(({ value }) => value));
    return records.map((record, i): { record: KcatRecord; message: (typeof decoded)[0] } => {
      return { record, message: decoded[i] };
    });
  }

  test('read every event unchanged: the bytes of its payload, its ids, and its time in microseconds', async () => {
    const game = await aProject(ingest, { revision: 'B', spread: 2 });
    const buildId = randomUUID();
    const payloads = validJson.map(({ bytes }) =>
      Buffer.concat([Buffer.from('{"v":'), bytes, Buffer.from('}')]),
    );
    const sessions = [game.sessionId, await game.session(), await game.session(), undefined];
    const posted = new Map<string, object>();
    for (const [i, payload] of payloads.entries()) {
      const sessionId = sessions[i % sessions.length];
      const of = { eventType: `type ${i} é 漢 😀`, buildId, occurredAt: OCCURRED_AT, sessionId };
      const key: Record<string, string> = i % 3 === 0 ? { 'Idempotency-Key': aKey() } : {};
      const answer = await game.post(rawEvent(payload, of), key);
      expect(answer.status, answer.text()).toBe(201);
      const [{ id }] = answer.json();
      const event = {
        id,
        sessionId: sessionId ?? null,
        buildId,
        eventType: of.eventType,
        sequence: null,
        sampleRate: null,
      };
      posted.set(id, { ...event, occurredAt: OCCURRED_MICROS, payload: hexOf(payload), overQuota: false });
    }

    const read = await readBack(game, TOPICS.events);

    expect(read.map(({ record }) => record.headers)).toEqual(
      read.map(({ message }) => `questlog-append-id=${message.appendId}`),
    );
    expect(new Set(read.map(({ record }) => record.partition)).size).toBe(2);
    for (const { message } of read) {
      expect(message).toMatchObject({ tenantId: game.tenantId, projectId: game.projectId, revision: 'B' });
    }
    const events = read.flatMap(({ message }) => message.events);
    expect(events.length).toBe(posted.size);
    for (const event of events) expect(withHex(event)).toEqual(posted.get(event.id));
  });

  test('read every link once, with the whole event', async () => {
    const game = await aProject(ingest, { revision: 'B' });
    const payload = Buffer.from('{"hp":18446744073709551616,"f":1.0}');
    const answers = [
      await game.post(rawEvent(payload)),
      await game.post(rawEvent(payload, { sessionId: game.sessionId })),
    ];
    const ids: string[] = answers.map((answer) => answer.json()[0].id);
    const report = (await game.report({ sessionId: game.sessionId, eventIds: [ids[0]] })).json();
    await linksOf(game, report.id, 2);

    const read = await eventually(
      () => readBack(game, TOPICS.linkedEvents),
      ({ length }) => length >= 2,
    );

    expect(
      read.map(({ message }) => [message.event.id, message.kind, message.source, message.reportId]),
    ).toEqual(
      expect.arrayContaining([
        [ids[0], 'linked', 'named', report.id],
        [ids[1], 'linked', 'session', report.id],
      ]),
    );
    expect(read.length).toBe(2);
    for (const { message } of read) expect(withHex(message.event)).toMatchObject({ payload: hexOf(payload) });
  });

  test('can write a report to any partition, and the report is linked', async () => {
    const game = await createProjectWhere(
      ingest,
      (id) => crc32(id) % PARTITIONS !== partitionOf(id, 0, PARTITIONS),
    );
    const [named] = (await game.post(anEvent())).json();
    const [before] = (await game.post(anEvent({ sessionId: game.sessionId }))).json();
    const reportId = randomUUID();
    const { tenantId, projectId, sessionId } = game;
    const report = { kind: 'filed', tenantId, projectId, reportId, receivedAt: Date.now() };
    const value = await tools.encode(`${topicOf(TOPICS.reportLinks)}-value`, {
      ...report,
      sessionId,
      eventIds: [named.id],
    });

    await tools.write(topicOf(TOPICS.reportLinks), tenantId, value);
    const [after] = (await game.post(anEvent({ sessionId }))).json();

    const shall = [
      [named.id, 'named'],
      [before.id, 'session'],
      [after.id, 'session'],
    ].toSorted();
    const links = await linksOf(game, reportId, 3);
    expect(links.map(({ eventId, source }) => [eventId, source]).toSorted()).toEqual(shall);
    const stored = () =>
      deployment.sql<{ event_id: string; source: string }>(
        `SELECT event_id, source FROM report_links WHERE report_id = '${reportId}' AND state = 'linked'`,
      );
    const rows = await eventually(stored, ({ length }) => length === 3, LINKED_WITHIN_MS);
    expect(rows.map(({ event_id: id, source }) => [id, source]).toSorted()).toEqual(shall);
    const records = await readBack(game, TOPICS.reportLinks);
    const written = records.filter(({ record }) => record.value.equals(value));
    // The topic has the record on the partition that kcat selected, and a copy by the linker on the home partition.
    const [foreign, home] = [crc32(tenantId) % PARTITIONS, partitionOf(tenantId, 0, PARTITIONS)];
    expect(written.map(({ record }) => record.partition).toSorted()).toEqual([foreign, home].toSorted());
  });

  test('can write a report to an added partition: the report is linked, and readiness warns about the partition', async () => {
    const topic = topicOf(TOPICS.reportLinks);
    const count = 2 * PARTITIONS;
    await admin((one) => one.createPartitions({ topicPartitions: [{ topic, count }] }));
    // Restarts the linker. A running linker would detect the new partitions only after up to half a minute.
    for (const linker of deployment.running('linker')) await linker.stop();
    const linker = await deployment.start('linker');
    const warned = expect.stringContaining(TOPICS.reportLinks);
    const ready = async () => {
      const { status, warnings } = await linker.readyz();
      return { status, warnings };
    };
    await expect.poll(ready).toEqual({ status: 200, warnings: { partitions_were_added: warned } });
    const game = await createProjectWhere(ingest, (tenantId) => crc32(tenantId) % count >= PARTITIONS);
    const [named] = (await game.post(anEvent())).json();
    const reportId = randomUUID();
    const { tenantId, projectId } = game;
    const report = { kind: 'filed', tenantId, projectId, reportId, receivedAt: Date.now() };
    const value = await tools.encode(`${topic}-value`, { ...report, eventIds: [named.id] });
    await tools.write(topic, tenantId, value);
    const [link] = await linksOf(game, reportId, 1);
    expect(link).toMatchObject({ eventId: named.id, source: 'named' });
  });

  test('can follow the reports of a project, as in the bug-tracker example', async () => {
    const game = await aProject(ingest, { revision: 'B' });
    const folder = mkdtempSync(join(tmpdir(), 'bug-tracker-'));
    const tracker = spawn(process.execPath, [EXAMPLE], {
      env: {
        ...ownEnvironment(),
        KAFKA_BROKERS: engines.brokers,
        SCHEMA_REGISTRY_URL: engines.registryUrl,
        KAFKA_GROUP: topicOf('example'),
        QUESTLOG_PREFIX: deployment.prefix,
        QUESTLOG_PROJECT: game.projectId,
        TRAIL_FILE: join(folder, 'trail.json'),
      },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    const output = collectOutput(tracker);
    onTestFinished(async () => {
      await end(tracker, 'SIGKILL');
      rmSync(folder, { recursive: true, force: true });
    });
    await game.post(
      anEvent({ sessionId: game.sessionId, eventType: 'crash', occurredAt: new Date().toISOString() }),
    );
    const report = (await game.report({ sessionId: game.sessionId })).json();

    await eventually(
      async () => output,
      ({ stdout }) => stdout.includes(`report ${report.id}\n`) && /Z {2}"crash" {2}session\n$/.test(stdout),
      LINKED_WITHIN_MS,
    );
    expect(await end(tracker, 'SIGTERM')).toBe(0);
  });

  async function linksOf(game: TestProject, reportId: string, count: number): Promise<ListedLink[]> {
    const readLinks = async (): Promise<ListedLink[]> => {
      const answer = await game.get(`/v1/reports/${reportId}`);
      return answer.status === 200 ? answer.json().links : [];
    };
    const isLinked = (links: ListedLink[]): boolean =>
      links.filter(({ state }) => state === 'linked').length === count;
    return await eventually(readLinks, isLinked, LINKED_WITHIN_MS);
  }
});

/**
 * Creates projects until the id of a tenant meets the condition. The tests select tenants by the partition that kcat uses, the
 * CRC-32 of the key.
 */
async function createProjectWhere(
  ingest: Service,
  isWanted: (tenantId: string) => boolean,
): Promise<TestProject> {
  for (;;) {
    const game = await aProject(ingest, { revision: 'B' });
    if (isWanted(game.tenantId)) return game;
  }
}

function withHex(event: { payload: string }): object {
  return { ...event, payload: hexOf(Buffer.from(event.payload)) };
}

function hexOf(bytes: Buffer): string {
  return bytes.toString('hex');
}
