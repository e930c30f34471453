/**
 * Cache of sessions or bug reports. The cache reads the topic from the projector's committed offset, so it has every session or
 * report that ClickHouse might not have yet. A lookup first reads the topic to its end, and then queries ClickHouse. The
 * reverse order could miss a session that is projected between both reads.
 */

import { onEachNode } from '@questlog/runtime/clickhouse/cluster/eachNode';
import type { RestoredTable } from '@questlog/runtime/clickhouse/restored/restoredTable';
import type { Store } from '@questlog/runtime/clickhouse/store';
import type { Log, Tail } from '@questlog/runtime/log/log';
import { type ProjectionProgress, READ_TIMEOUT_MS } from '@questlog/runtime/log/projection/projection';
import { informEach, type TruncationParticipant } from '@questlog/runtime/log/truncation/participants';
import {
  type ProjectedState,
  truncatedPartitions,
} from '@questlog/runtime/log/truncation/truncatedPartitions';
import { waitForTail } from '@questlog/runtime/log/waitForTail';
import { Invalid, Unavailable } from '@questlog/runtime/process/errors';
import type { Logger } from '@questlog/runtime/process/logger';
import { Failure, retry, withinLimit } from '@questlog/runtime/process/waiting';
import { createCodec, type SchemaRegistry } from '@questlog/runtime/registry/registry';
import { openTailDecoder, type TailDecoder } from '@questlog/runtime/registry/tailDecoder';
import { partitionOf } from '@questlog/schemas/partition';
import type { MessageContract } from '@questlog/schemas/topics/contract';
import type { IngestMetrics } from '../metrics.ts';
import { EntityIndex, type EntityRules, type IndexBounds } from './entityIndex.ts';
import { TruncationRepair } from './truncationRepair.ts';

export interface EntityName {
  readonly tenantId: string;
  readonly projectId: string;
  readonly id: string;
}

/** Describes how log records become entities, such as sessions. The cache finds all records of a tenant in one partition. */
export interface EntityType<Message, Entity> extends EntityRules<Entity> {
  readonly contract: MessageContract<Message>;
  /** Name of the cache in the metrics. */
  readonly resource: string;
  nameOf(message: Message): EntityName;
  /** Returns the entity of a log record. Undefined if the record creates no entity, for example because it is invalid. */
  entityOf(message: Message, partition: number, partitions: number): Entity | undefined;
  /** @param node ClickHouse node to query. By default, the store chooses a node. */
  lookUp(
    projectId: string,
    ids: readonly string[],
    node?: Pick<Store, 'query'>,
  ): Promise<ReadonlyMap<string, Entity>>;
  onStart?(): Promise<void>;
  /** Receives each log record that the cache reads, after the record was merged into `entity`. */
  onRecord?(message: Message, entity: Entity): void;
}

export interface EntityCache<Message, Entity> {
  /**
   * Returns entities by id. Queries ClickHouse for entities that are not in memory.
   * @param looksUpAll true if ClickHouse is also queried for entities in memory. This is necessary if the first record of an
   * entity can differ from the record in memory.
   * @throws Unavailable if ClickHouse does not answer, if this process lags behind the log, or if a restored table lacks rows
   */
  find(
    tenantId: string,
    projectId: string,
    ids: readonly string[],
    looksUpAll?: boolean,
  ): Promise<ReadonlyMap<string, Entity>>;
  /** Returns the entity from memory. Undefined if the entity is not in memory, even if ClickHouse has the entity. */
  get(projectId: string, id: string): Entity | undefined;
  /**
   * True if memory or ClickHouse still has an erased entity with this id.
   * @param isDeleting true if every node of a cluster is queried, because a node may have executed a deletion before other nodes
   * @throws Unavailable if a queried node does not answer
   */
  hasHidden(projectId: string, id: string, isDeleting: boolean): Promise<boolean>;
  /** Reads the tenant's partition up to its current end. @throws Unavailable if reading takes too long */
  caughtUp(tenantId: string): Promise<void>;
  /** Appends a record, reads the record from the log, and returns its offset. @throws ReadBackTimeout after a time limit */
  append(message: Message): Promise<number>;
  /**
   * Appends the record of a new entity. If the log already has an entity with the same id, returns the existing entity.
   * @throws ReadBackTimeout if the record was appended, but this process did not read it from the log in time
   * @throws Unavailable if the cache is full. The record is then not appended.
   */
  register(message: Message, entity: Entity): Promise<{ registered: Entity; isOwn: boolean }>;
  readonly failed: Promise<never>;
  /** Returns an error if a table that was restored from a backup lacks rows. `tenantId` limits the check to a tenant. */
  errorIfIncomplete(tenantId?: string): Promise<Unavailable | undefined>;
  close(): Promise<void>;
}

/** Error after a successful append if this process could not read the new record from the log in time. */
export class ReadBackTimeout extends Unavailable {}

const LAGGING = 'this process has not read the end of the log yet; try again';
const CACHE_FULL =
  'ClickHouse lags too far behind the log, so new registrations are rejected; try again later';

export interface EntityCacheDeps {
  readonly log: Log;
  readonly store: Store;
  readonly registry: SchemaRegistry;
  readonly projection: ProjectionProgress;
  readonly logger: Logger;
  readonly table?: RestoredTable;
  readonly readTimeoutMs?: number;
  readonly bounds?: IndexBounds;
  readonly metrics?: Pick<IngestMetrics, 'resources'>;
  /**
   * Other modules that can have data of lost records. If the log truncates the topic, this cache calls `onTruncated` of these
   * modules.
   */
  readonly participants?: readonly TruncationParticipant[];
  readonly onReappended?: (topic: string, records: number) => void;
}

export async function openEntityCache<Message, Entity>(
  deps: EntityCacheDeps,
  type: EntityType<Message, Entity>,
): Promise<EntityCache<Message, Entity>> {
  const limit = { limitMs: deps.readTimeoutMs ?? READ_TIMEOUT_MS, message: LAGGING };
  const { topic } = type.contract;
  const codec = await createCodec(deps.registry, type.contract);
  const decoder = openTailDecoder({ codec, logger: deps.logger, topic });
  const index = openIndex(deps, type);
  const partitions = await deps.log.partitionCount(topic);
  const repair = new TruncationRepair({ ...deps, onProjected: (ends) => index.evictProjected(ends) }, topic);
  const tails = await openTails(deps, { type, decoder, index, repair, partitions });
  const tailFor = (home: number): Promise<Tail> => withinLimit(tails.of(home), limit.limitMs, throwLagging);
  const caughtUp = async (tenantId: string): Promise<void> => {
    const home = partitionOf(tenantId, 0, partitions);
    await withinLimit(repair.repaired(home), limit.limitMs, throwLagging);
    const tail = await tailFor(home);
    const minOffset = tail.positions()[home] ?? 0;
    await readUpTo(tail, { home, end: await deps.log.endOffset(topic, home), minOffset, ...limit });
  };
  const append = async (message: Message): Promise<number> => {
    const { tenantId } = type.nameOf(message);
    const home = partitionOf(tenantId, 0, partitions);
    const tail = await tailFor(home);
    const minOffset = (tail.positions()[home] ?? 0) + 1;
    const { baseOffset } = await deps.log.append(topic, home, [
      { key: tenantId, value: codec.encode(message) },
    ]);
    await readUpTo(tail, { home, end: baseOffset + 1, minOffset, ...limit }).catch((error: unknown) => {
      throw error instanceof Unavailable ? new ReadBackTimeout(LAGGING) : error;
    });
    return baseOffset;
  };
  const checkTable = async (home?: number, minOffset = 0): Promise<Unavailable | undefined> => {
    const endOf = (end: number, one: number) => ((home ?? one) === one ? Math.max(end, minOffset) : 0);
    return await deps.table?.errorIfIncomplete(index.evictedBelow.map(endOf));
  };

  return {
    failed: tails.failed,
    close: () => {
      repair.close();
      decoder.close();
      return tails.close();
    },
    get: (projectId, id) => index.getComplete(projectId, id),
    hasHidden: (...lookup) => hasHidden({ ...deps, index }, type, ...lookup),
    caughtUp,
    append,
    errorIfIncomplete: (tenantId) =>
      tenantId === undefined ? checkTable() : checkTable(partitionOf(tenantId, 0, partitions), 1),
    find: async (tenantId, projectId, ids, looksUpAll = false) => {
      const found = new Map<string, Entity>();
      if (index.collect(projectId, ids, found).length === 0 && !looksUpAll) return found;
      await caughtUp(tenantId);
      const missing = index.collect(projectId, ids, found);
      const wanted = looksUpAll ? ids : missing;
      if (wanted.length === 0) return found;
      // Checks for missing rows before the query, because the rows can arrive during the query.
      const incomplete = await checkTable(partitionOf(tenantId, 0, partitions));
      const stored = await lookUpVisible(index, type, projectId, wanted);
      if (incomplete !== undefined && wanted.some((id) => !stored.has(id))) throw incomplete;
      return new Map([...found, ...stored]);
    },
    register: async (message, entity) => {
      if (index.isFull) index.evictProjected(await deps.projection.projected());
      if (index.isFull) throw new Unavailable(CACHE_FULL, { retryAfterS: 10 });
      const offset = await append(message);
      const { projectId, id } = type.nameOf(message);
      const { entity: registered, firstOffset } = index.get(projectId, id) ?? { entity, firstOffset: offset };
      return { registered, isOwn: firstOffset === offset };
    },
  };
}

function openIndex<Entity>(
  { bounds, metrics }: EntityCacheDeps,
  type: EntityRules<Entity> & { readonly resource: string },
): EntityIndex<Entity> {
  const index = new EntityIndex<Entity>(type, bounds);
  metrics?.resources.add(index.asResource(type.resource));
  return index;
}

async function lookUpVisible<Entity>(
  index: EntityIndex<Entity>,
  type: Pick<EntityType<never, Entity>, 'lookUp' | 'isVisible'>,
  projectId: string,
  ids: readonly string[],
): Promise<ReadonlyMap<string, Entity>> {
  const visible = new Map<string, Entity>();
  for (const [id, entity] of await type.lookUp(projectId, ids))
    if (type.isVisible(projectId, entity)) visible.set(id, index.putStored(projectId, id, entity));
  return visible;
}

/**
 * Checks memory before ClickHouse. In the opposite order, an entity that moves to ClickHouse in between would be missed. During a
 * deletion, queries every node, because the projector can read a node that has not executed the deletion.
 */
async function hasHidden<Entity>(
  {
    index,
    projection,
    store,
  }: Pick<EntityCacheDeps, 'projection' | 'store'> & { index: EntityIndex<Entity> },
  { lookUp, isVisible }: Pick<EntityType<never, Entity>, 'lookUp' | 'isVisible'>,
  projectId: string,
  id: string,
  isDeleting: boolean,
): Promise<boolean> {
  if (index.hasHidden(projectId, id)) index.evictProjected(await projection.projected());
  if (index.hasHidden(projectId, id)) return true;
  // Without a given node, several lookups share a query.
  const found =
    isDeleting && store.nodes !== undefined
      ? await onEachNode(store, (node) => lookUp(projectId, [id], node))
      : [await lookUp(projectId, [id])];
  return found.some((rows) => {
    const row = rows.get(id);
    return row !== undefined && !isVisible(projectId, row);
  });
}

interface ReadTarget {
  readonly home: number;
  readonly end: number;
  /** Minimum end offset of the log. A lower end offset means that the log was truncated. */
  readonly minOffset: number;
  readonly limitMs: number;
  readonly message: string;
}

async function readUpTo(tail: Tail, { home, end, minOffset, ...limit }: ReadTarget): Promise<void> {
  if (end < minOffset) throwLagging();
  const ends = tail.positions().map((_, partition) => (partition === home ? end : 0));
  await waitForTail(tail, ends, limit);
}

function throwLagging(): never {
  throw new Unavailable(LAGGING);
}

interface TailContext<Message, Entity> {
  readonly type: EntityType<Message, Entity>;
  readonly decoder: TailDecoder<Message>;
  readonly index: EntityIndex<Entity>;
  readonly repair: TruncationRepair;
  readonly partitions: number;
}

interface Tails {
  /** Returns the log reader of a partition. Waits until the partition has a leader. */
  of(partition: number): Promise<Tail>;
  readonly failed: Promise<never>;
  close(): Promise<void>;
}

/**
 * Opens readers for all partitions, and waits until each reader has reached the partition's current end. Partitions without a
 * leader are opened later, when they have a leader.
 */
async function openTails<Message, Entity>(
  deps: EntityCacheDeps,
  context: TailContext<Message, Entity>,
): Promise<Tails> {
  const { topic } = context.type.contract;
  const initial = { projected: await deps.projection.projected(), last: await deps.projection.lastRecords() };
  context.index.projected = initial.projected;
  await context.type.onStart?.();
  const closed = new AbortController();
  const failure = new Failure();
  const opened: Tail[] = [];
  const follow = async (wanted: readonly number[]) => {
    const followed = await followPartitions(deps, { ...context, initial }, wanted);
    if (followed === undefined) return undefined;
    if (closed.signal.aborted) await followed.tail.close();
    followed.tail.failed.catch(failure.fail);
    opened.push(followed.tail);
    return followed;
  };
  const followWhenLed = async (partition: number): Promise<Tail> => {
    const where = { topic, partition };
    const followed = async () => {
      const { tail } = (await follow([partition])) ?? {};
      if (tail === undefined) throw new Unavailable(`${topic}/${partition} has no leader`);
      return tail;
    };
    const tail = await retry(followed, {
      signal: closed.signal,
      onDelay: ({ message }, backoffMs) =>
        deps.logger.warn('first_records_awaited', { ...where, backoffMs, cause: message }),
    });
    deps.logger.info('first_records_followed', where);
    return tail;
  };
  const all = Array.from({ length: context.partitions }, (_, partition) => partition);
  const first = await follow(all);
  const tails = all.map(async (one) =>
    first?.ends[one] === undefined ? await followWhenLed(one) : first.tail,
  );
  for (const tail of tails) {
    tail.catch((error) => {
      if (!closed.signal.aborted) failure.fail(error);
    });
  }
  await first?.tail.waitForOffsets(first.ends.map((end) => end ?? 0));
  return {
    of: (partition) => tails[partition] ?? Promise.reject(new Error(`${topic} has no ${partition}`)),
    failed: failure.failed,
    close: async () => {
      closed.abort();
      await Promise.all(opened.map((tail) => tail.close()));
    },
  };
}

/** Starts to read those `wanted` partitions that have a leader. Returns undefined if no `wanted` partition has a leader. */
async function followPartitions<Message, Entity>(
  { log, logger, participants = [] }: EntityCacheDeps,
  context: TailContext<Message, Entity> & { readonly initial: ProjectedState },
  wanted: readonly number[],
): Promise<{ readonly tail: Tail; readonly ends: readonly (number | undefined)[] } | undefined> {
  const { type, decoder, index, repair, partitions, initial } = context;
  const { topic } = type.contract;
  const all = await log.offsetRanges(topic);
  const ranges = all.map((range, partition) => (wanted.includes(partition) ? range : undefined));
  const withLeader = wanted.filter((partition) => ranges[partition] !== undefined);
  if (withLeader.length === 0) return undefined;
  const from = [...initial.projected];
  const { onTruncated } = informEach([index, repair, ...participants]);
  for (const range of await truncatedPartitions(log, topic, ranges, initial)) {
    // After a truncation, reads the partition from its first record. The committed offset refers to records that the log has
    // lost.
    from[range.partition] = ranges[range.partition]?.startOffset ?? 0;
    onTruncated(range);
  }
  const tail = await log.tail({
    topic,
    from,
    partitions: withLeader,
    onTruncated,
    onBatch: async ({ partition, records }) => {
      for (const record of records) {
        const { offset } = record;
        try {
          const message = await decoder.decode(record, partition);
          // Keeps a copy of every record, so that the record can be appended again if the log loses it.
          repair.add(partition, record);
          const entity = type.entityOf(message, partition, partitions);
          if (entity === undefined) continue;
          const { projectId, id } = type.nameOf(message);
          const cached = index.putRecord(projectId, id, { entity, partition, offset });
          type.onRecord?.(message, cached);
        } catch (error) {
          // Skips an invalid record, because the projector writes a dead letter for the record.
          if (!(error instanceof Invalid)) throw error;
          logger.warn('first_record_skipped', { topic, partition, offset });
        }
      }
    },
  });
  return { tail, ends: ranges.map((range) => range?.endOffset) };
}
