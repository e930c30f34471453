/** Creates missing topics in Kafka. Rejects existing topics that do not match their specification. */
import kafkajs, {
  type Admin,
  type ITopicConfig,
  type ITopicMetadata,
  type ResourceConfigQuery,
} from 'kafkajs';
import { messageOf, StartRefused } from '../../../process/errors.ts';
import type { Logger } from '../../../process/logger.ts';
import type { TopicRetention, TopicSpec } from '../../log.ts';
import { BATCH_OVERHEAD_BYTES, type TopicLimits } from '../append/batchSize.ts';
import { hasErrorType } from '../client/errors.ts';
import { NO_LEADER } from '../client/patches.ts';
import type { ReplaceableClient } from '../client/replaceableClient.ts';
import { withRetries } from '../client/retries.ts';

export interface TopicsDeps {
  readonly admin: ReplaceableClient<Admin>;
  /** Replication factor of new topics. -1 selects the default of the brokers. */
  readonly replicationFactor: number;
  nameOf(name: string): string;
}

/** @throws StartRefused if a topic does not match its specification or the brokers reject its creation. */
export async function ensureTopics(
  deps: TopicsDeps & { readonly logger: Logger },
  specs: readonly TopicSpec[],
  originalPartitions: ReadonlyMap<string, number>,
): Promise<void> {
  const unique = [...new Map(specs.map((spec) => [spec.name, spec])).values()];
  if (unique.length === 0) return;
  for (const { name, partitions } of unique) {
    if (name === '' || !Number.isInteger(partitions) || partitions < 1) {
      throw new Error(`invalid topic "${name}" with ${partitions} partitions`);
    }
  }
  const created = await createMissing(deps, unique);
  // Checks even the topics that were missing, because another process may have created them with a different specification.
  const described = await Promise.all(
    unique.map((spec) =>
      describeTopic(deps, spec.name, {
        unknownLimitMs: NEW_UNKNOWN_LIMIT_MS,
        needsLeaders: created.has(spec),
      }),
    ),
  );
  for (const [index, spec] of unique.entries()) {
    const description = described[index];
    if (description !== undefined) checkTopic(spec, description, originalPartitions.get(spec.name));
  }
  warnOfAddedPartitions(deps, unique, described);
  warnOfLateCompaction(deps, described);
  await warnOfFewReplicas(deps, described);
}

/** Returns a topic's settings. @throws Error if the topic is missing. @throws Unavailable if a new topic has no leaders. */
export async function describeTopic(
  deps: TopicsDeps,
  topic: string,
  { unknownLimitMs = UNKNOWN_LIMIT_MS, needsLeaders = false } = {},
): Promise<TopicDescription> {
  const name = deps.nameOf(topic);
  const message = `the topic ${name} cannot be described`;
  return withRetries({ message, limitMs: LIMIT_MS, unknownLimitMs }, () =>
    deps.admin.use(RESPONSE_LIMIT_MS, async (admin) => {
      const { topics } = await admin.fetchTopicMetadata({ topics: [name] });
      const { resources } = await admin.describeConfigs({
        includeSynonyms: false,
        resources: [configQuery(name)],
      });
      const entries = resources[0]?.configEntries ?? [];
      const config = new Map(entries.map(({ configName, configValue }) => [configName, configValue]));
      const policy = config.get('cleanup.policy') ?? '';
      const maxBatchBytes = Number(config.get('max.message.bytes'));
      const minInSync = Number(config.get('min.insync.replicas'));
      const { partitions, replicas } = partitionsOf(name, topics, needsLeaders);
      const isCompacted = policy.includes('compact');
      const ages = {
        retentionMs: Number(config.get('retention.ms')),
        segmentMs: Number(config.get('segment.ms')),
        compactionLagMs: Number(config.get('max.compaction.lag.ms')),
      };
      return { topic, partitions, replicas, minInSync, maxBatchBytes, policy, isCompacted, ...ages };
    }),
  );
}

export interface TopicDescription extends TopicLimits {
  readonly policy: string;
  /** Number of replicas of the partition with the fewest replicas. */
  readonly replicas: number;
  readonly minInSync: number;
  /** Value of `retention.ms`, which is -1 if records do not expire. */
  readonly retentionMs: number;
  readonly segmentMs: number;
  /** Value of `max.compaction.lag.ms`, or NaN if the brokers do not support the setting. */
  readonly compactionLagMs: number;
}

/** Returns the retention of a topic. `deletedAfterMs` exceeds `retentionMs`, because Kafka deletes only whole segments. */
export function retentionOf({ policy, retentionMs, segmentMs }: TopicDescription): TopicRetention {
  if (retentionMs < 0 || !policy.includes('delete'))
    return { retentionMs: Number.POSITIVE_INFINITY, deletedAfterMs: Number.POSITIVE_INFINITY };
  return { retentionMs, deletedAfterMs: retentionMs + segmentMs };
}

/**
 * Warns about partitions that were added to an existing topic. Kafka cannot remove these partitions, and Questlog does not use
 * them, because keys would move to other partitions.
 */
function warnOfAddedPartitions(
  { logger }: { readonly logger: Logger },
  specs: readonly TopicSpec[],
  described: readonly TopicDescription[],
): void {
  const added = specs.flatMap(({ name, partitions: used }, index) => {
    const actual = described[index]?.partitions ?? used;
    return actual > used ? [`${name} ${actual}, used: ${used}`] : [];
  });
  if (added.length === 0) return;
  logger.warn('partitions_were_added', {
    topics: added,
    mend: 'let your producers write only to the used partitions; see docs/operating/kafka.md',
  });
}

/** Warns about compacted topics of an older Questlog version, because erased data can stay in these topics for years. */
function warnOfLateCompaction(
  { logger }: { readonly logger: Logger },
  described: readonly TopicDescription[],
): void {
  const late = described.filter((one) => one.isCompacted && one.compactionLagMs > LONG_COMPACTION_LAG_MS);
  if (late.length === 0) return;
  logger.warn('superseded_records_stay_in_topics', {
    topics: late.map(({ topic }) => topic),
    mend: `set max.compaction.lag.ms=${MAX_COMPACTION_LAG_MS} on the topics; see docs/operating/kafka.md`,
  });
}

const SAFE_REPLICAS = 3;

async function warnOfFewReplicas(
  { admin, logger }: TopicsDeps & { readonly logger: Logger },
  described: readonly TopicDescription[],
): Promise<void> {
  const few = described.filter(({ replicas, minInSync }) => replicas < 2 || minInSync < 2);
  if (few.length === 0) return;
  const { brokers } = await admin.use(RESPONSE_LIMIT_MS, (one) => one.describeCluster());
  if (brokers.length < SAFE_REPLICAS) return;
  const topics = few.map(({ topic, replicas, minInSync }) => `${topic} ${replicas}/${minInSync}`);
  logger.warn('acknowledged_events_may_be_lost_with_one_broker', {
    'replicas/min.insync.replicas': topics,
    mend: 'set three replicas and min.insync.replicas=2 on the topics; set KAFKA_REPLICATION_FACTOR=3 before the first start',
  });
}

const LIMIT_MS = 15_000;
/** Maximum time of retries for an unknown topic. Some brokers learn about a new topic late. */
const UNKNOWN_LIMIT_MS = 500;
/** Time for which a broker can report a new topic as unknown, especially under load. */
const NEW_UNKNOWN_LIMIT_MS = LIMIT_MS;
const RESPONSE_LIMIT_MS = 5000;

/** Maximum time to wait until all brokers know the new topics. */
const CREATE_LIMIT_MS = 10_000;

async function createMissing(deps: TopicsDeps, specs: readonly TopicSpec[]): Promise<ReadonlySet<TopicSpec>> {
  const message = 'the topics cannot be created';
  return withRetries({ message, limitMs: LIMIT_MS }, () =>
    deps.admin.use(CREATE_LIMIT_MS + RESPONSE_LIMIT_MS, async (admin) => {
      const existing = new Set(await admin.listTopics());
      const missing = specs.filter(({ name }) => !existing.has(deps.nameOf(name)));
      const topics = missing.map((spec) => topicConfig(deps, spec));
      if (topics.length > 0) {
        await admin
          .createTopics({ topics, waitForLeaders: false, timeout: CREATE_LIMIT_MS })
          .catch(ignoreExisting);
      }
      return new Set(missing);
    }),
  );
}

function ignoreExisting(error: unknown): void {
  const errors: unknown[] = error instanceof kafkajs.KafkaJSAggregateError ? error.errors : [error];
  for (const one of errors) {
    if (hasErrorType(one, 'TOPIC_ALREADY_EXISTS')) continue;
    if (hasErrorType(one, ...REJECTION_ERRORS)) {
      const topic: unknown = one instanceof Error ? Reflect.get(one, 'topic') : undefined;
      throw new StartRefused(`the brokers rejected the creation of the topic ${topic}: ${messageOf(one)}`, {
        cause: one,
      });
    }
    throw one;
  }
}

const REJECTION_ERRORS = [
  'INVALID_REPLICATION_FACTOR',
  'INVALID_PARTITIONS',
  'INVALID_CONFIG',
  'INVALID_TOPIC_EXCEPTION',
  'POLICY_VIOLATION',
  'TOPIC_AUTHORIZATION_FAILED',
  'CLUSTER_AUTHORIZATION_FAILED',
];

const SETTINGS = [
  'max.message.bytes',
  'cleanup.policy',
  'min.insync.replicas',
  'retention.ms',
  'segment.ms',
  'max.compaction.lag.ms',
];

function configQuery(name: string): ResourceConfigQuery {
  return { type: kafkajs.ConfigResourceTypes.TOPIC, name, configNames: [...SETTINGS] };
}

function topicConfig({ replicationFactor, nameOf }: TopicsDeps, spec: TopicSpec): ITopicConfig {
  const { name, partitions, cleanup } = spec;
  const config: Record<string, string> = {
    'cleanup.policy': cleanup.policy,
    'max.message.bytes': String(neededBatchBytes(spec)),
    'compression.type': spec.compression ?? 'producer',
    'message.timestamp.type': 'LogAppendTime',
  };
  if (cleanup.policy === 'delete') config['retention.ms'] = String(cleanup.retentionMs);
  else {
    config['segment.bytes'] = String(COMPACTED_SEGMENT_BYTES);
    config['max.compaction.lag.ms'] = String(MAX_COMPACTION_LAG_MS);
  }
  // Requires two in-sync replicas, so that acknowledged records survive the failure of one broker.
  if (replicationFactor >= 3) config['min.insync.replicas'] = '2';
  return {
    topic: nameOf(name),
    numPartitions: partitions,
    replicationFactor,
    configEntries: Object.entries(config).map(([key, value]) => ({ name: key, value })),
  };
}

/** Maximum size of a segment in a compacted topic. Kafka compacts only closed segments. The brokers' default is 1 GiB. */
const COMPACTED_SEGMENT_BYTES = 64 * 1024 * 1024;

/** Value of `max.compaction.lag.ms` (KIP-354). With the brokers' default, Kafka can keep superseded records for years. */
const MAX_COMPACTION_LAG_MS = 24 * 60 * 60 * 1000;

/** Maximum compaction lag without a warning: the brokers' default retention (7 days) plus default segment age (7 days). */
const LONG_COMPACTION_LAG_MS = 14 * MAX_COMPACTION_LAG_MS;

function neededBatchBytes({ maxRecordBytes }: TopicSpec): number {
  return maxRecordBytes + BATCH_OVERHEAD_BYTES;
}

function partitionsOf(
  name: string,
  topics: readonly ITopicMetadata[],
  needsLeaders: boolean,
): { partitions: number; replicas: number } {
  const partitions = topics.find((topic) => topic.name === name)?.partitions ?? [];
  const isLed = partitions.every(({ leader }) => leader !== NO_LEADER);
  if (partitions.length === 0 || (needsLeaders && !isLed)) {
    throw new Error(`${name} has partitions without a leader`);
  }
  const replicas = Math.min(...partitions.map((partition) => partition.replicas.length));
  return { partitions: partitions.length, replicas };
}

function checkTopic(
  spec: TopicSpec,
  { partitions: actual, policy, maxBatchBytes }: TopicDescription,
  originalPartitions: number | undefined,
): void {
  const mismatch = (has: string, needs: string) =>
    new StartRefused(
      `topic ${spec.name} has ${has} instead of ${needs}: Questlog does not change existing topics`,
    );
  const partitions = Math.min(actual, originalPartitions ?? actual);
  if (partitions !== spec.partitions) {
    throw mismatch(`${partitions} partitions`, `${spec.partitions}`);
  }
  if (policy !== spec.cleanup.policy) {
    throw mismatch(`cleanup.policy ${policy}`, spec.cleanup.policy);
  }
  const needed = neededBatchBytes(spec);
  if (maxBatchBytes < needed) {
    throw mismatch(`max.message.bytes ${maxBatchBytes}`, `at least ${needed}`);
  }
}
