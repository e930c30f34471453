/**
 * What the first record of an id in a topic has made (a session, a bug report). Memory holds what the projector has not
 * written yet (a tail of the topic from its committed offset) and what was asked for lately; everything else is in
 * ClickHouse. A look-up that finds nothing in memory takes the topic's end, reads memory up to there, and only then asks
 * ClickHouse: in this order nothing falls in between.
 *
 * If the log was cut, what this process had read there is forgotten, and what ClickHouse may not have of it is appended
 * again, as it was: it had been acknowledged. Should another record of an id be faster, that one counts.
 */
import { recordIdOf } from '@questlog/runtime/consumer/blocks';
import type { RecordIdentity } from '@questlog/runtime/consumer/findTruncation';
import type { Log, OffsetRange, Tail } from '@questlog/runtime/log/log';
import { waitForTail } from '@questlog/runtime/log/waitForTail';
import { Invalid, Unavailable } from '@questlog/runtime/process/errors';
import type { Logger } from '@questlog/runtime/process/logger';
import { Failure, retryUntilAvailable, withinLimit } from '@questlog/runtime/process/waiting';
import { createCodec, type SchemaRegistry } from '@questlog/runtime/registry/registry';
import { openTailDecoder, type TailDecoder } from '@questlog/runtime/registry/tailDecoder';
import { partitionOf } from '@questlog/schemas/partition';
import type { MessageContract } from '@questlog/schemas/topics/contract';
import { EntityIndex, type EntityRules, type IndexBounds } from './entityIndex.ts';
import { type ProjectionProgress, READ_TIMEOUT_MS } from './projectionProgress.ts';
import type { RestoredTable } from './restoredTable.ts';
import { TruncationRepair } from './truncationRepair.ts';

/** Ids are unique inside a project only. */
export interface EntityName {
  readonly tenantId: string;
  readonly projectId: string;
  readonly id: string;
}

/** How the records of a topic make entities; the topic's records lie at the home partition of their tenant. */
export interface EntityType<Message, Entity> extends EntityRules<Entity> {
  readonly contract: MessageContract<Message>;
  nameOf(message: Message): EntityName;
  /** What a record says of its entity; undefined where it says nothing here. */
  entityOf(message: Message, partition: number, partitions: number): Entity | undefined;
  lookUp(projectId: string, ids: readonly string[]): Promise<ReadonlyMap<string, Entity>>;
  /** Awaited when it is known where the tail begins, before it begins: ClickHouse then has all that lies ahead of it. */
  onStart?(): Promise<void>;
  /** Hears of each record of the tail, with all that is known of its entity. */
  onRecord?(message: Message, entity: Entity): void;
}

export interface EntityCache<Message, Entity> {
  /**
   * The known ones of these entities of the project.
   * @throws Unavailable when ClickHouse is needed and silent, or this process lags behind the log; or one is unknown while
   *   ClickHouse's table was restored and is not what it was yet.
   */
  find(tenantId: string, projectId: string, ids: readonly string[]): Promise<ReadonlyMap<string, Entity>>;
  /** One of the project that memory has, whole. */
  get(projectId: string, id: string): Entity | undefined;
  /** Whether memory or ClickHouse still has one that was erased. @throws Unavailable where ClickHouse is silent. */
  hasErased(projectId: string, id: string): Promise<boolean>;
  /**
   * Resolves once this process has read what the log has of the tenant now.
   * @throws Unavailable where it lags, or has not heard of a cut.
   */
  caughtUp(tenantId: string): Promise<void>;
  /**
   * Appends a record at the tenant's home and returns its offset, once this process has read it back.
   * @throws NotReadBack when that takes too long, or the log was cut meanwhile: the record is in the log.
   */
  append(message: Message): Promise<number>;
  /**
   * Appends a first record and returns what the log says the entity is: this one, or an earlier one.
   * @throws NotReadBack as `append`; Unavailable, with nothing appended, while memory is full of what ClickHouse lacks.
   */
  register(message: Message, entity: Entity): Promise<{ registered: Entity; isOwn: boolean }>;
  readonly failed: Promise<never>;
  /**
   * What ClickHouse's table lacks since it was restored: of what memory may have let go, of all partitions; with a tenant, of
   * anything of its home that was projected.
   */
  errorIfIncomplete(tenantId?: string): Promise<Unavailable | undefined>;
  close(): Promise<void>;
}

/** The record is in the log, and what it has made there is not known here yet. */
export class ReadBackTimeout extends Unavailable {}

const LAGGING = 'this process has not read yet what the log has; try again';
const CACHE_FULL =
  'ClickHouse lags so far behind the log that nothing new is registered for now; try again later';

export interface EntityCacheDeps {
  readonly log: Log;
  readonly registry: SchemaRegistry;
  /** Of the topic, by the group that writes it to ClickHouse. */
  readonly projection: ProjectionProgress;
  readonly logger: Logger;
  /** ClickHouse's, which a backup may bring back with less in it. */
  readonly table?: RestoredTable;
  /** For how long a request waits until this process has read what the log has; `READ_WAIT_MS` unless given. */
  readonly readTimeoutMs?: number;
  readonly bounds?: IndexBounds;
  /** Hears of each cut, and of the records that were appended again. */
  readonly onTruncated?: (cut: TruncatedPartition) => void;
  readonly onReappended?: (topic: string, records: number) => void;
}

/** The log no longer holds what this process has read or appended from the offset on. */
export interface TruncatedPartition {
  readonly topic: string;
  readonly partition: number;
  readonly offset: number;
}

export async function openEntityCache<Message, Entity>(
  deps: EntityCacheDeps,
  type: EntityType<Message, Entity>,
): Promise<EntityCache<Message, Entity>> {
  const limit = { limitMs: deps.readTimeoutMs ?? READ_TIMEOUT_MS, message: LAGGING };
  const { topic } = type.contract;
  const codec = await createCodec(deps.registry, type.contract);
  const decoder = openTailDecoder({ codec, logger: deps.logger, topic });
  const index = new EntityIndex<Entity>(type, deps.bounds);
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
    hasErased: (projectId, id) => hasErased({ ...deps, index }, type, projectId, id),
    caughtUp,
    append,
    errorIfIncomplete: (tenantId) =>
      tenantId === undefined ? checkTable() : checkTable(partitionOf(tenantId, 0, partitions), 1),
    find: async (tenantId, projectId, ids) => {
      const found = new Map<string, Entity>();
      if (index.collect(projectId, ids, found).length === 0) return found;
      await caughtUp(tenantId);
      const missing = index.collect(projectId, ids, found);
      if (missing.length === 0) return found;
      // Before the look-up: what is projected while it runs says nothing of it.
      const incomplete = await checkTable(partitionOf(tenantId, 0, partitions));
      for (const [id, entity] of await type.lookUp(projectId, missing)) {
        if (!type.isErased?.(projectId, entity)) found.set(id, index.putStored(projectId, id, entity));
      }
      if (incomplete !== undefined && missing.some((id) => !found.has(id))) throw incomplete;
      return found;
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

/** Memory comes first: what leaves it, or was projected, is in ClickHouse, or was and is hidden. */
async function hasErased<Entity>(
  { index, projection }: Pick<EntityCacheDeps, 'projection'> & { index: EntityIndex<Entity> },
  { lookUp, isErased }: Pick<EntityType<never, Entity>, 'lookUp' | 'isErased'>,
  projectId: string,
  id: string,
): Promise<boolean> {
  if (index.hasErased(projectId, id)) index.evictProjected(await projection.projected());
  if (index.hasErased(projectId, id)) return true;
  const row = (await lookUp(projectId, [id])).get(id);
  return row !== undefined && isErased?.(projectId, row) === true;
}

interface ReadTarget {
  readonly home: number;
  readonly end: number;
  /** Of a log that was not cut the end is no lower: the tail had been so far before the end was asked for. */
  readonly minOffset: number;
  readonly limitMs: number;
  readonly message: string;
}

/** @throws Unavailable where the tail has not heard of a cut: what it has read is not what the log has. */
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

/** As of the start, also for the partitions that are followed later: what lies ahead was in ClickHouse at `onStart`. */
interface ProjectedState {
  /** Per partition, the offset below which all was projected. */
  readonly projected: readonly number[];
  /** Per partition, the record that the projector's commit names, where it names one. */
  readonly last: readonly (RecordIdentity | undefined)[];
}

interface Tails {
  /** That of the partition, once there is one. */
  of(partition: number): Promise<Tail>;
  readonly failed: Promise<never>;
  close(): Promise<void>;
}

/**
 * Resolves once all is read of the partitions that have a leader now. Each of the others is followed once it has one, just
 * as at a start; until then only its tenants wait.
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
    const tail = await retryUntilAvailable(followed, {
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

/** @returns the ends, as of before, of the partitions that are followed; undefined where none that is wanted has a leader. */
async function followPartitions<Message, Entity>(
  { log, logger, onTruncated }: EntityCacheDeps,
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
  for (const { partition, offset } of await findTruncations(log, topic, ranges, initial)) {
    // What the projector has written is no proof of what is in the log now.
    from[partition] = ranges[partition]?.startOffset ?? 0;
    index.truncate(partition, offset);
    onTruncated?.({ topic, partition, offset });
  }
  const tail = await log.tail({
    topic,
    from,
    partitions: withLeader,
    onTruncated: (partition, offset) => {
      index.truncate(partition, offset);
      repair.truncate(partition, offset);
      onTruncated?.({ topic, partition, offset });
    },
    onBatch: async ({ partition, records }) => {
      for (const record of records) {
        const { offset } = record;
        try {
          const message = await decoder.decode(record, partition);
          // What says nothing here too: the linker's copies are for other linkers, and nobody else keeps them.
          repair.add(partition, record);
          const entity = type.entityOf(message, partition, partitions);
          if (entity === undefined) continue;
          const { projectId, id } = type.nameOf(message);
          const cached = index.putRecord(projectId, id, { entity, partition, offset });
          type.onRecord?.(message, cached);
        } catch (error) {
          // The projector sends it to the dead letters; here it only says nothing.
          if (!(error instanceof Invalid)) throw error;
          logger.warn('first_record_skipped', { topic, partition, offset });
        }
      }
    },
  });
  return { tail, ends: ranges.map((range) => range?.endOffset) };
}

/**
 * Finds the cuts that came before this process did: the log does not hold the last records that were projected.
 *
 * @param ranges of the partitions that are looked at.
 * @returns the partitions, each with an offset from which on it is not what was projected. Where retention has removed the
 *   record, nothing tells.
 */
async function findTruncations(
  log: Pick<Log, 'tail'>,
  topic: string,
  ranges: readonly (OffsetRange | undefined)[],
  { projected, last }: ProjectedState,
): Promise<{ readonly partition: number; readonly offset: number }[]> {
  const found = new Map<number, number>();
  const unread = new Set<number>();
  ranges.forEach((range, partition) => {
    if (range === undefined) return;
    const { endOffset: end } = range;
    const offset = last[partition]?.offset;
    if ((projected[partition] ?? 0) > end) found.set(partition, end);
    else if (offset !== undefined && offset < end) unread.add(partition);
  });
  if (unread.size > 0) {
    const { promise: isRead, resolve } = Promise.withResolvers<void>();
    const read = (partition: number): void => {
      unread.delete(partition);
      if (unread.size === 0) resolve();
    };
    const tail = await log.tail({
      topic,
      from: ranges.map((_, partition) => last[partition]?.offset ?? 0),
      partitions: [...unread],
      onBatch: ({ partition, records, nextOffset }) => {
        const proof = last[partition];
        if (proof === undefined || nextOffset <= proof.offset) return;
        const record = records.find(({ offset }) => offset === proof.offset);
        if (record !== undefined && recordIdOf(record) !== proof.id) found.set(partition, proof.offset);
        read(partition);
      },
      onTruncated: (partition, offset) => {
        found.set(partition, offset);
        read(partition);
      },
    });
    // Retention may have removed it with all behind it: then nothing comes, and nothing tells.
    tail.positions().forEach((position, partition) => {
      if (unread.has(partition) && position > (last[partition]?.offset ?? -1)) read(partition);
    });
    await Promise.race([isRead, tail.failed]).finally(() => tail.close());
  }
  return [...found].map(([partition, offset]) => ({ partition, offset }));
}
