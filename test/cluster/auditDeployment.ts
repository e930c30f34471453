/** Audits a deployment after its load. Finds lost events, duplicate events, a wrong order, and wrong links. */
import { isDeepStrictEqual } from 'node:util';
import { localName } from '@questlog/runtime/clickhouse/cluster/tables/clusterSchema';
import { readCommitted } from '@questlog/runtime/log/kafka/testing/readCommitted';
import type { Batch, Log, LogRecord } from '@questlog/runtime/log/log';
import { unframe } from '@questlog/schemas/topics/contract';
import { linkedEvents } from '@questlog/schemas/topics/linkedEvents';
import { TOPICS } from '@questlog/schemas/topics/topics';
import { eventually } from '../e2e/builders.ts';
import { bugsIn } from '../e2e/product.ts';
import {
  type Asked,
  auditCounts,
  auditEvents,
  auditOrder,
  auditSessions,
  storedRows,
} from '../faults/audit.ts';
import { isSame, type JoinedLinks, joinAndLinks } from '../faults/joinedLinks.ts';
import type { ClickHouseNode, Deployment } from './deployment.ts';
import type { Load } from './load.ts';

export interface Audit {
  /** Faults that the audit found, as sentences. Empty if the audit passes. */
  readonly findings: readonly string[];
  readonly events: number;
  readonly links: number;
}

const LINKED_WITHIN_MS = 90_000;

/**
 * Audits the deployment. Call this function after the load has ended and the consumers have caught up. The audit stops the
 * services before the audit reads the topics, unless the caller passes a log.
 * @param log log that reads the topics while the services run. Undefined if the audit reads the topics without Questlog's code.
 */
export async function auditDeployment(deployment: Deployment, load: Load, log?: Log): Promise<Audit> {
  const { ledger } = load;
  const joined = await eventually(() => joinAndLinks(deployment), isSame, LINKED_WITHIN_MS).catch(() =>
    joinAndLinks(deployment),
  );
  const codes = log === undefined ? await deployment.stop() : [];
  const read: ReadTopic =
    log === undefined ? (topic) => stoppedTopic(deployment, topic) : (topic) => runningTopic(log, topic);
  const findings = [
    ...ledger.violations,
    ...deployment.services.flatMap((service) => bugsIn(service.stderr())),
    ...codes.flatMap((code) => (code === 0 ? [] : `a service ended with ${code}`)),
    ...(await auditLinks(read, joined)),
    ...(await deadLetters(read)),
  ];
  let events = 0;
  for (const node of deployment.clickhouseNodes()) {
    const audited = await auditNode(node, load);
    findings.push(...audited.findings.map((finding) => `${finding} (${node.url})`));
    if (!isDeepStrictEqual(await joinAndLinks(node), joined)) findings.push(`${node.url} has other links`);
    events = audited.events;
  }
  return { findings, events, links: joined.links.length };
}

/**
 * Audits the rows that a node returns: its own rows of a shard, the rows of the other shards, and all other tables, after the node
 * has fetched all parts.
 */
async function auditNode(node: ClickHouseNode, load: Load): Promise<Pick<Audit, 'findings' | 'events'>> {
  const { ledger } = load;
  const replicated = await node.sql<{ name: string }>(
    "SELECT name FROM system.tables WHERE database = currentDatabase() AND engine LIKE 'Replicated%'",
  );
  await Promise.all(replicated.map(({ name }) => node.command(`SYSTEM SYNC REPLICA ${name} LIGHTWEIGHT`)));
  const rows = await storedRows(node);
  // Checks the order of acknowledged requests only, because a request without a response may reach the log late or never.
  const acknowledged = rows.filter(({ sha256 }) => ledger.bySha256.get(sha256)?.id !== undefined);
  const findings = [
    ...auditEvents(ledger, rows),
    ...auditOrder(ledger, acknowledged),
    ...(await auditSessions(node, ledger)),
    ...(await auditCounts(node, rows)),
    ...(await auditReports(node, load)),
  ];
  return { findings, events: rows.length };
}

/**
 * Stops merges, because a merge would remove duplicate rows before the audit counts them. Raises the limits of parts, because
 * otherwise ClickHouse would delay inserts. On a cluster, only limits the size of merges, because an erasure needs mutations.
 */
export async function keepSecondRows(deployment: Deployment): Promise<void> {
  const isCluster = deployment.engines.clickhouseCluster !== undefined;
  const limits = `parts_to_delay_insert = ${ALL_PARTS}, parts_to_throw_insert = ${ALL_PARTS}`;
  for (const { command } of deployment.clickhouseNodes()) {
    for (const name of ['events', 'sessions', 'appends']) {
      const table = isCluster ? localName(name) : name;
      const noMerges = isCluster ? ', max_bytes_to_merge_at_max_space_in_pool = 1' : '';
      await command(`ALTER TABLE ${table} MODIFY SETTING ${limits}${noMerges}`);
      if (!isCluster) await command(`SYSTEM STOP MERGES ${table}`);
    }
  }
}

/** Number of parts that no test reaches. By default, ClickHouse delays each insert above 1,000 parts. */
const ALL_PARTS = 1_000_000;

async function auditReports({ sql }: Asked, { reports }: Load): Promise<string[]> {
  const rows = await sql<{ id: string; count: number }>(
    'SELECT id, toUInt32(count()) AS count FROM reports GROUP BY id',
  );
  const stored = new Map(rows.map(({ id, count }) => [id, count]));
  return reports.flatMap(({ id }) =>
    stored.get(id) === 1 ? [] : `report ${id}: ${stored.get(id) ?? 0} rows`,
  );
}

type ReadTopic = (topic: string) => Promise<readonly Pick<LogRecord, 'key' | 'value'>[]>;

/** Reads a topic to which no service writes. No service may use the topic after the call. */
export async function stoppedTopic({ engines, prefix }: Deployment, topic: string): ReturnType<ReadTopic> {
  const records = await readCommitted(engines.brokers, prefix + topic);
  return records.map(({ message: { key, value } }) => ({ key: key?.toString() ?? null, value }));
}

async function runningTopic(log: Log, topic: string): ReturnType<ReadTopic> {
  const records: LogRecord[] = [];
  const ends = await log.endOffsets(topic);
  const onBatch = (batch: Batch): void => void records.push(...batch.records);
  const tail = await log.tail({ topic, from: 'earliest', onBatch });
  await tail.waitForOffsets(ends).finally(() => tail.close());
  return records;
}

/**
 * Checks that ClickHouse has all links, and that the topic of linked events has each link once. No service may write to the topic
 * during the check.
 */
export async function auditLinks(read: ReadTopic, { join, links }: JoinedLinks): Promise<string[]> {
  const records = await read(TOPICS.linkedEvents);
  const times = new Map<string, number>();
  for (const { value } of records) {
    const body = value && unframe(value)?.body;
    if (!body) return ['a record of linked events is not framed'];
    const { kind, reportId, event } = linkedEvents.type.fromBuffer(body);
    const pair = `${reportId} ${event.id}${kind === 'linked' ? '' : ' unlinked'}`;
    times.set(pair, (times.get(pair) ?? 0) + 1);
  }
  const stored = new Set(links);
  const expected = new Set(join);
  return [
    ...join.flatMap((pair) => (stored.has(pair) ? [] : `${pair} is not linked in ClickHouse`)),
    ...links.flatMap((pair) => (expected.has(pair) ? [] : `${pair} is linked, but must not be`)),
    ...join.flatMap((pair) =>
      times.get(pair) === 1 ? [] : `${pair} is in the stream ${times.get(pair) ?? 0} times`,
    ),
    ...[...times.keys()].flatMap((pair) =>
      expected.has(pair) ? [] : `${pair} is in the stream, but must not be`,
    ),
  ];
}

async function deadLetters(read: ReadTopic): Promise<string[]> {
  const records = await read(TOPICS.deadLetters);
  return records.map(({ key }) => `there is a dead letter of ${key ?? 'no key'}`);
}
