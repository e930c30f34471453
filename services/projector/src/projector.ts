/** Starts the projector, which writes the records of the log to ClickHouse. Writes each partition in blocks (`runBlocks`). */
import { type TablesId, watchTablesId } from '@questlog/runtime/clickhouse/restored/tableUuids';
import type { Store } from '@questlog/runtime/clickhouse/store';
import { runBlocks } from '@questlog/runtime/consumer/blocks';
import type { Block, BlockWriter } from '@questlog/runtime/consumer/blockWriter';
import { openDeadLetters } from '@questlog/runtime/consumer/deadLetters';
import { checkProgress } from '@questlog/runtime/consumer/progress';
import type { ServiceDeps } from '@questlog/runtime/consumer/serviceDeps';
import type { ShardOfPartition } from '@questlog/runtime/consumer/shardInUse';
import type { Consumer } from '@questlog/runtime/log/log';
import { steadyClock } from '@questlog/runtime/process/clock';
import { createCodec } from '@questlog/runtime/registry/registry';
import { processInTraces } from '@questlog/runtime/tracing/tracing';
import { auditEntry } from '@questlog/schemas/topics/auditEntry';
import type { MessageContract } from '@questlog/schemas/topics/contract';
import { eventsInBytes } from '@questlog/schemas/topics/eventsRecord';
import { linkedEvents } from '@questlog/schemas/topics/linkedEvents';
import { reportLinks } from '@questlog/schemas/topics/reportLinks';
import { sessionRegistered } from '@questlog/schemas/topics/sessionRegistered';
import { GROUPS } from '@questlog/schemas/topics/topics';
import { openAuditWriter } from './auditWriter.ts';
import { openEventsWriter } from './events/writer.ts';
import type { ProjectorMetrics } from './metrics.ts';
import { OffsetPublisher } from './projectedOffsets.ts';
import { openLinksWriter } from './reports/linksWriter.ts';
import { openReportsWriter } from './reports/writer.ts';
import { openSessionsWriter } from './sessionsWriter.ts';
import { openStoredRecords } from './truncations/storedRecords.ts';
import {
  AUDIT_TABLES,
  EVENT_TABLES,
  LINK_TABLES,
  REPORT_TABLES,
  SESSION_TABLES,
  type TopicTables,
} from './truncations/topicTables.ts';
import {
  sharedTruncationQuery,
  type TruncationQuery,
  type TruncationRow,
  truncationWarning,
} from './truncations/truncations.ts';
import type { WriterDeps } from './writer.ts';

export interface ProjectorDeps extends ServiceDeps {
  /** Minimum interval in milliseconds between two blocks of a partition. */
  readonly flushIntervalMs: number;
  readonly metrics: ProjectorMetrics;
}

export interface Projector {
  /** Rejects if a consumer fails permanently, for example because most records of a topic cannot be decoded. */
  readonly failed: Promise<never>;
  stop(): Promise<void>;
}

export async function startProjector(options: ProjectorDeps): Promise<Projector> {
  const { log } = options;
  const store = options.store.quorum ?? options.store;
  const deps = {
    ...options,
    tablesIdOf: watchTablesId(store),
    truncationsOf: sharedTruncationQuery(store, log.id),
    offsets: new OffsetPublisher({ ...options, store }),
  };
  const projections = [
    await projectTopic(deps, eventsInBytes, GROUPS.projectEvents, openEventsWriter, EVENT_TABLES),
    await projectTopic(deps, sessionRegistered, GROUPS.projectSessions, openSessionsWriter, SESSION_TABLES),
    await projectTopic(deps, reportLinks, GROUPS.projectReports, openReportsWriter, REPORT_TABLES),
    await projectTopic(deps, linkedEvents, GROUPS.projectLinks, openLinksWriter, LINK_TABLES),
    await projectTopic(deps, auditEntry, GROUPS.projectAudit, openAuditWriter, AUDIT_TABLES),
  ];
  warnOfTruncations(deps);
  const failed = Promise.race(projections.map((projection) => projection.failed));
  // Without this handler, Node would report an unhandled rejection if the projector fails before a caller awaits `failed`.
  failed.catch(() => {});
  return {
    failed,
    stop: async () => {
      await Promise.all(projections.map((projection) => projection.stop()));
      await deps.offsets.stop();
    },
  };
}

/** Adds a warning about truncations to health responses. Caches the warning, because responses must not wait for ClickHouse. */
function warnOfTruncations({ health, store, log }: ProjectorDeps): void {
  let warning: string | undefined;
  const refresh = async (): Promise<void> => {
    warning = await truncationWarning(store, log.id);
  };
  health.warn('log_truncated', () => {
    refresh().catch(() => {});
    return warning;
  });
}

interface SharedQueries {
  readonly tablesIdOf: (table: string) => TablesId;
  readonly truncationsOf: TruncationQuery;
  readonly offsets: OffsetPublisher;
}

type OpenWriter<Message> = (
  deps: WriterDeps<Message>,
  start: number,
) => BlockWriter<unknown> | Promise<BlockWriter<unknown>>;

async function projectTopic<Message>(
  deps: ProjectorDeps & SharedQueries,
  contract: MessageContract<Message>,
  group: string,
  openWriter: OpenWriter<Message>,
  tables: TopicTables<Message>,
): Promise<Projector> {
  const { log, clock, logger, metrics, flushIntervalMs, visible, tracing, offsets } = deps;
  const { topic } = contract;
  const codec = await createCodec(deps.registry, contract);
  const deadLettersFor = await openDeadLetters({ ...deps, group });
  const partitions = await log.partitionCount(topic);
  const onOutcome = (outcome: string, records: number): void =>
    metrics.projected.inc({ topic, outcome }, records);
  const shared = { codec, clock, visible, logId: log.id, partitions, onOutcome };
  const onWritten = (_block: Block, startedAtMs: number): void => {
    metrics.blockSeconds.observe({ topic }, (steadyClock.now() - startedAtMs) / 1000);
  };
  let consumer: Consumer | undefined;
  const checked = {
    group,
    topic,
    name: group,
    activityOf: (partition: number) => consumer?.activity(partition),
  };
  const stopCheck = checkProgress(deps, checked, (lag) => metrics.projectorLag.set({ topic }, lag));
  consumer = await log.consume({
    group,
    topics: [topic],
    process: (owned) => {
      const { partition, signal } = owned;
      const store = deps.store.forPartition?.(partition) ?? deps.store;
      const source = { logId: log.id, topic, partition };
      const truncations: TruncationRow[] = [];
      const published = offsets.of(source, tables.rows.table, truncations);
      const deadLetters = deadLettersFor(signal);
      return runBlocks(owned, {
        log,
        topic,
        tablesId: deps.tablesIdOf(tables.rows.table),
        storedRows: openStoredRecords({ ...deps, store, codec, source, tables, truncations }),
        shard: shardOf(deps.store, partition, tables),
        openWriter: async (start, shard) => {
          const orphanIds = truncations.map(({ orphanId }) => orphanId);
          const target = deps.store.forPartition?.(partition, shard) ?? deps.store;
          return await openWriter({ ...shared, store: target, partition, orphanIds, deadLetters }, start);
        },
        flushIntervalMs,
        insertsEndWithinMs: store.insertsEndWithinMs,
        clock: steadyClock,
        logger,
        onWritten,
        inTraces: (block, write) => processInTraces(tracing, { group, ...block }, block.records, write),
        publishStart: (...start) => published.start(...start),
        onProjected: (nextOffset) => published.advance(nextOffset),
        onTruncation: (_cut, records) => metrics.truncatedRecords.inc({ topic, partition }, records),
      });
    },
  });
  return {
    failed: consumer.failed,
    stop: async () => {
      stopCheck();
      await consumer.stop();
    },
  };
}

/** Returns the shard of a partition's events. Returns undefined for other topics, because all nodes have their rows. */
function shardOf(
  { partitionShards, localName }: Store,
  partition: number,
  { rows: { table } }: TopicTables<never>,
): ShardOfPartition | undefined {
  if (partitionShards === undefined || localName?.(table) === table) return undefined;
  const recent = () => partitionShards.of(partition);
  return { recent, latest: () => partitionShards.refresh().then(recent) };
}
